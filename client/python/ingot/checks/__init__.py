# SPDX-License-Identifier: Apache-2.0
"""Native answers held against those of eager."""

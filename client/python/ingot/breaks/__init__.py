# SPDX-License-Identifier: Apache-2.0
"""Programs that are no one graph: modules and statements served natively, with Python between them."""

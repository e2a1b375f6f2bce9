# SPDX-License-Identifier: Apache-2.0
"""The call site: what happens when a call cannot be served natively, and which stored variants serve the next ones."""

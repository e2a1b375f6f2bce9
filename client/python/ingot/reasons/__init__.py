# SPDX-License-Identifier: Apache-2.0
"""What is known of a function before it runs, why a call was not served, and what users are told of it."""

# SPDX-License-Identifier: Apache-2.0
"""State that each call reads and replaces, and in which tensors part and meet again."""
import torch


class Held:
    pass


a, b = Held(), Held()
n = 1


def inputs():
    return (torch.ones(n, 2),)


def one(rows):
    global n
    n = rows
    z = torch.zeros(rows, 2)
    a.state = (z, z)


def views(rows):
    global n
    n = rows
    z = torch.zeros(rows, 2)
    a.state = (z, z[:])


def two(rows):
    global n
    n = rows
    a.state = (torch.zeros(rows, 2), torch.ones(rows, 2))


def shared(rows):
    two(rows)
    b.state = a.state


def unshared(rows):
    two(rows)
    b.state = (torch.full((rows, 2), 2.0), torch.full((rows, 2), 3.0))


# %% tuple_of_one_tensor
one(1)


def fn(x):
    h, c = a.state
    a.state = (h + x, c * 2 + x)
    return h * 10 + c
mutations = ["n = 1", "n = 1", "one(3)", "n = 3", "n = 3", "one(1)", "one(3)", "n = 3", "two(2)", "n = 2", "one(2)", "n = 2"]
native = None


# %% tuple_of_a_tensor_and_a_view
views(1)


def fn(x):
    h, c = a.state
    a.state = (h + x, c * 2 + x)
    return h * 10 + c
mutations = ["n = 1", "n = 1", "views(3)", "n = 3", "n = 3", "views(1)", "one(3)", "n = 3", "views(3)", "n = 3"]
native = None


# %% tuple_of_one_tensor_compared
one(1)


def fn(x):
    h, c = a.state
    a.state = (h + x, c * 2 + x)
    return x * 2 if h is c else h * 10 + c
mutations = ["n = 1", "n = 1", "one(3)", "n = 3", "n = 3", "one(1)", "one(3)", "n = 3", "two(2)", "n = 2"]
native = None


# %% tuple_in_two_places
shared(1)


def fn(x):
    h, c = a.state
    p, q = b.state
    a.state, b.state = (h + x, c * 2 + x), (p - x, q * 3 + x)
    return h * 10 + c + p * 100 + q * 1000
mutations = ["n = 1", "n = 1", "shared(3)", "n = 3", "n = 3", "unshared(1)", "shared(3)", "n = 3", "unshared(3)", "n = 3", "shared(2)", "n = 2"]
native = None


# %% tuple_in_two_places_compared
shared(1)


def fn(x):
    one = a.state is b.state
    h, c = a.state
    p, q = b.state
    a.state, b.state = (h + x, c * 2 + x), (p - x, q * 3 + x)
    return h + p if one else h - p + q
mutations = ["n = 1", "n = 1", "shared(3)", "n = 3", "unshared(1)", "shared(3)", "n = 3", "unshared(3)", "n = 3", "shared(2)", "n = 2"]
native = None


# %% cell_reset_to_one_tensor
torch.manual_seed(0)
cell = torch.nn.LSTMCell(2, 2)
one(1)


def fn(x):
    a.state = cell(x, a.state)
    return a.state[0]
mutations = ["n = 1", "n = 1", "one(3)", "n = 3", "n = 3", "one(1)", "one(3)", "n = 3", "one(2)", "n = 2", "n = 2"]
native = None

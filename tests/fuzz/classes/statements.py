# SPDX-License-Identifier: Apache-2.0
"""Statements of the functions, and what changes between two calls. Where one begins with a question mark it is an expression, whose value is used.

In braces: an object ``o``, a container ``l``, an attribute ``n``, a key ``k`` (``key``: of ``o``), a number ``v``, something to iterate over ``it``.
"""

USES = {
    "__setitem__": ["o[{key}] = {v}", "operator.setitem(o, {key}, {v})", "o[{key}] = T; T.append(4)"],
    "__getitem__": ["?o[{key}]", "?operator.itemgetter({key})(o)"],
    "__delitem__": ["del o[{key}]", "operator.delitem(o, {key})"],
    "__contains__": ["?{key} in o", "?operator.contains(o, {key})", "?{key} not in o"],
    "__len__": ["?len(o)", "?bool(o)"],
    "__iter__": ["?list(o)", "?many(*o)", "?[num(v) for v in o]", "?sorted(o, key=num)", "T.extend(o)", "?next(iter(o))"],
    "__next__": ["?next(o)", "?next(o, 4)"],
    "__enter__": ["with o as w: out.append(w is o)", "with o: y = small(y + o.a)"],
    "__exit__": ["with o: y = y + 1", "with o: raise KeyError(1)", "with o: raise ValueError(y.shape[0])"],
    "__call__": ["?o({key})", "?o()", "?many(*map(o, [1]))"],
    "__iadd__": ["r = o; r += {it}; out.append(r is o)", "r = o; r += T; T.append(4)", "H.o = o; H.o += T"],
    "__ior__": ["r = o; r |= {it}; out.append(r is o)", "r = o; r |= {{'z': T}}; T.append(4)"],
    "__add__": ["?o + {it}", "?o + {v}"],
    "__radd__": ["?{v} + o", "?{it} + o"],
    "__lshift__": ["o << {v}", "?o << T", "?operator.lshift(o, {it})"],
    "__eq__": ["?o == {v}", "?{v} == o", "?o in [1, p]", "?o != p", "?operator.eq(o, p)"],
    "__lt__": ["?o < {v}", "?o < p", "?{v} > o", "?min(o, p) is o", "?sorted([o, p])[0] is p"],
    "__hash__": ["?D.get(o)", "?o in {{1, 2}}", "?len({{o, p}})", "D[o] = {v}"],
    "__bool__": ["?bool(o)", "?not o", "y = y + 1 if o else y", "?(o or 3) is o"],
    "__missing__": ["?o['zz']", "?operator.itemgetter('zz')(o)", "?'{{zz}}'.format_map(o)", "?o.get('zz')"],
    "__setattr__": ["o.{n} = {v}", "setattr(o, '{n}', {v})", "o.{n} = T; T.append(4)"],
    "__getattr__": ["?o.zz", "?getattr(o, 'zz', 3)", "?hasattr(o, 'zz')", "?o.z", "?hasattr(o, 'z')", "?vars(o)"],
    "__delattr__": ["del o.{n}", "delattr(o, '{n}')"],
    "w": ["?o.w", "o.w = {v}", "del o.w", "?getattr(o, 'w', 3)", "?hasattr(o, 'w')", "?operator.attrgetter('w')(o)"]}
"""What calls a special method; ``w``: a descriptor."""
READS = {
    "any": ["?{o}.a", "?{o}.b", "?getattr({o}, '{n}', {v})", "?hasattr({o}, '{n}')", "?vars({o})['a']", "?{o}.__dict__.get('{n}', 7)", "?'{n}' in vars({o})",
            "?list(vars({o}))[:3]", "?operator.attrgetter('a')({o})", "?type({o}) is Kind", "?{o} is p", "?operator.is_(o, {o})", "?{o}.items is T", "?num({o}.c)",
            "?type({o}).__name__"],
    "list": ["?{l}[0]", "?{l}[-1:]", "?{v} in {l}", "?len({l})", "?list({l})", "?[num(v) for v in {l}]", "?{l}.count(1)", "?{l} == [1, 2]", "?many(*{l})",
             "?sorted({l}, key=num)", "?next(iter({l}), None)", "?operator.itemgetter(0)({l})", "first, *rest = {l}; out.append(rest)", "?{l}.index(2)", "T.extend({l})",
             "?any(v == 2 for v in {l})"],
    "dict": ["?{l}[{k}]", "?{l}.get({k}, {v})", "?{k} in {l}", "?len({l})", "?list({l})", "?list({l}.items())", "?many(**{l})", "?dict({l})", "?{{**{l}, 'q': 1}}",
             "?{l} == {{'k': 1}}", "?operator.itemgetter({k})({l})", "?next(iter({l}.values()))", "?[num(v) for v in {l}.values()]"],
    "set": ["?{v} in {l}", "?len({l})", "?sorted({l})", "?{l} | {{4}}", "?{l} == {{1, 2}}", "?{l}.issubset(T)", "?sum(v for v in {l})"],
    "deque": ["?{l}[0]", "?len({l})", "?list({l})", "?{v} in {l}", "?many(*{l})", "?{l} == deque([1])", "?{l}.count(1)"],
    "other": ["?TL.a", "?getattr(TL, 'z', 4)", "?CV.get()", "?INNER(2)", "?PART(N)", "?W.a", "?hasattr(W, 'z')", "?PART.keywords['k']", "?EXTRA", "?globals().get('EXTRA')", "?N",
              "?x.shape[0]", "?functools.partial(many, 1, k=N)(2)", "?a is {o}", "?type(a).__name__", "?hasattr(a, 'z')", "?getattr(a, 'z', 3)", "?getattr(a, '__dict__', None)"],
    "Point": ["?a == Point(1, 2)", "?vars(a)", "?dataclasses.asdict(a)", "?a.rest", "?dataclasses.replace(a, m=4).m", "?vars(a).get('z')", "?a.m"],
    "Pair": ["?a == (1, 2)", "?vars(a)", "?a._asdict()", "?many(*a)", "?a._replace(m=4).m", "m, n = a; out.append(n)", "?a.n"],
    "torch": ["?vars(a)", "?a.sum()", "y = small(y + a)"]}
MATCHES = ["case Point(m=1, n=n): out.append(n)", "case [first, *rest]: out.append(rest)", "case {'k': v, **rest}: out.append(rest)", "case Base(a=1): y = y + 1",
           "case Kind(): y = y - 1"]
GIVEN = ["T", "T", "[*L]", "Q", "(1, 4)"]
PAIRS = ["P = [['k', 1], ['m', T]]; {l}.update(P); P[0][1] = 9; T.append(3)", "P = Own(k=3, z=T); {l}.update(P); P['k'] = 5", "P = Walks(k=3, m=4); {l}.update(P); P['m'] = 5",
         "{l}.update(k={v}, n=T); T.append(4)", "P = {{'k': T}}; {l}.update(P); T.append(4); P['m'] = 1", "{l}.update(o.table)", "{l}.update(vars(H))",
         "{l}.update(zip('km', T))"]
WRITES = {
    "any": ["{o}.{n} = {v}", "setattr({o}, '{n}', {v})", "vars({o})['{n}'] = {v}", "{o}.{n} = y", "{o}.{n} = T; T.append(5)", "Kind.c = {v}", "{o}.a, {o}.b = {v}, {v}",
            "vars({o}).setdefault('{n}', {v})", "vars({o}).update({n}={v})", "vars({o}).pop('{n}', None)", "del {o}.{n}", "delattr({o}, '{n}')", "{o}.{n} = T; {o}.{n} += [4]",
            "P = {{'{n}': {v}}}; vars({o}).update(P); P['b'] = 4", "vars({o}).update([('{n}', T)]); T.pop()", "{o}.__dict__ = {{**vars({o}), '{n}': {v}}}"],
    "list": ["{l}[0] = {v}", "{l}.append({v})", "{l}.append({v}); {l}.pop()", "{l}.extend(T); T.append(3)", "{l}.insert(0, {v})", "{l}.append(T); T.append(y)", "{l}.reverse()",
             "{l}.clear()", "r = {l}; r += {it}; T.append(5)", "r = {l}; r *= 1", "{l}.insert(0, {l}.pop())", "{l}[1:] = T; T.append(4)", "{l}.sort(key=num)", "{l}.remove({v})",
             "del {l}[2:]", "{l}[:] = {it}", "{l}[:0] = (v for v in T)", "{l}.extend(map(num, T))", "{l}.extend({{'k': 1}}); T.clear()"],
    "dict": ["{l}[{k}] = {v}", "{l}[{k}] = T; T.append(3)", "{l}.pop({k}, None)", "{l}.setdefault({k}, {v})", "{l}.setdefault('n', T); T.append(3)", "{l}[{k}] = y",
             "r = {l}; r |= {{'k': T}}; T.pop()", "r = {l}; r |= [('k', {v})]", "{l}.clear()", "del {l}[{k}]", *PAIRS],
    "set": ["{l}.add({v})", "{l}.update(T, {{4}}); T.append(6)", "{l}.discard({v})", "{l}.remove({v})", "r = {l}; r |= {{{v}, 5}}", "{l}.update({it}, (v for v in T))",
            "{l} -= {{2}}", "{l}.pop()"],
    "deque": ["{l}.append({v})", "{l}.appendleft({v}); {l}.pop()", "{l}.extend(T); T.append(3)", "{l}.extendleft({it}); T.pop()", "{l}.rotate(1)", "{l}.popleft()",
              "{l}[0] = {v}", "del {l}[0]", "r = {l}; r += T"],
    "other": ["N = {v}", "M = y", "EXTRA = T; T.append(2)", "TL.a = {v}", "CV.set({v})", "H.l = L", "H.a += 1", "N += 1", "W.{n} = {v}", "TL.z = T; T.append(1)", "del EXTRA",
              "PART.keywords['k'] = {v}", "del W.{n}", "del TL.z"],
    "Point": ["a.m = {v}", "a.z = {v}", "a.rest.append({v})", "del a.z", "vars(a)['z'] = T; T.append(1)"],
    "Pair": ["a.z = {v}", "del a.z"],
    "torch": ["a.z = {v}", "a.z = T; T.append(1)", "del a.z", "a.add_(1)"]}
"""The first ones are drawn more often; what is given is changed afterwards."""
CHANGES = ["{o}.z = {v}", "{o}.z = 3", "del {o}.z", "{o}.a = {v}", "{o}.a = 1", "Kind.c = 6", "Base.c = {v}", "{o}.c = 8", "del {o}.c", "N = {v}", "N = 1", "D['k'] = {v}",
           "D['zz'] = 4", "D.pop('zz', 0)", "L.append({v})", "L[0] = {v}", "L[:] = [1, 2, 3]", "S.add(7)", "Q.append({v})", "H.extra = 2", "TL.a = {v}", "CV.set({v})",
           "PART.keywords['k'] = {v}", "o = make()", "p = o", "p = make()", "H.l = L", "EXTRA = {v}", "del EXTRA", "o.items.append({v})", "o.table['k'] = {v}", "o.table = D",
           "{use}", "{use}", "{use}", "{write}", "{write}", "Kind.{special} = note", "vars({o}).update(z=1)", "W = weakref.proxy(p)", "INNER = closing(2)", "H.o = p",
           "D = dict(D)", "L = list(L)"]

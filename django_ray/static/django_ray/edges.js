// Edges between nodes, blocks or stages: what lies behind one, and which of them say more.

function after(edges) {
  const found = new Map();
  for (const { source, target } of edges) {
    if (!found.has(source)) found.set(source, []);
    found.get(source).push(target);
  }
  return found;
}

function reach(next, from) {
  const found = new Set(), stack = [from];
  while (stack.length) {
    for (const each of next.get(stack.pop()) ?? []) {
      if (!found.has(each)) {
        found.add(each);
        stack.push(each);
      }
    }
  }
  return found;
}

// Everything behind a node; itself only where a cycle leads back to it.
export function behind(edges, from) {
  return reach(after(edges), from);
}

// An edge that follows from others says nothing that they do not. In a cycle each follows
// from each, so there nothing is left out.
export function reduced(edges) {
  const next = after(edges);
  const known = new Map();
  const of = (from) => {
    if (!known.has(from)) known.set(from, reach(next, from));
    return known.get(from);
  };
  const isBetween = (via, source, target) =>
    of(via).has(target) && !of(via).has(source) && !of(target).has(via);
  return edges.filter(({ source, target }) =>
    !next.get(source).some((via) => via !== target && isBetween(via, source, target)));
}

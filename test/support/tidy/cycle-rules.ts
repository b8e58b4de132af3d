/**
 * No import cycles: between files, types included, and between the rooms of the store and the
 * console.
 */
import { posix } from 'node:path';
import { file, importsOf, isProduct, type Rule, type SourceFile, type Violation } from './source.ts';

type Graph = Map<string, Set<string>>;

/** A path from `start` back to `start`, if there is one. */
function cycleThrough(start: string, graph: Graph): string[] | undefined {
  const reachedBy = new Map<string, string>();
  const waiting = [start];
  for (let at = waiting.shift(); at !== undefined; at = waiting.shift())
    for (const next of graph.get(at) ?? []) {
      if (next === start) {
        const path = [at];
        for (let step = at; step !== start; ) {
          step = reachedBy.get(step) ?? start;
          path.unshift(step);
        }
        return path;
      }
      if (reachedBy.has(next)) continue;
      reachedBy.set(next, at);
      waiting.push(next);
    }
  return undefined;
}

/** Reports each cycle once, by its alphabetically first member. */
function cyclesIn(graph: Graph): string[][] {
  const seen = new Set<string>();
  return [...graph.keys()].sort().flatMap((start) => {
    const cycle = seen.has(start) ? undefined : cycleThrough(start, graph);
    for (const member of cycle ?? []) seen.add(member);
    return cycle ? [cycle] : [];
  });
}

function importGraph(files: SourceFile[], nameOf: (path: string) => string | undefined): Graph {
  const graph: Graph = new Map();
  for (const source of files.filter(({ path }) => isProduct(path) && !path.includes('/testing/'))) {
    const from = nameOf(source.path);
    if (from === undefined) continue;
    const targets = graph.get(from) ?? new Set();
    graph.set(from, targets);
    for (const { target, own } of importsOf(source)) {
      const to = own ? nameOf(target) : undefined;
      if (to !== undefined && (to !== from || target === source.path)) targets.add(to);
    }
  }
  return graph;
}

const violations = (cycles: string[][]): Violation[] =>
  cycles.map(([path = '', ...rest]) => ({ path, what: `imports itself by way of ${[...rest, path].join(' → ')}` }));

const noFileCycles: Rule = {
  name: 'no file imports itself through others',
  check: (files) => violations(cyclesIn(importGraph(files, (path) => path))),
  broken: [
    [file('src/a/b.ts', "import './c.ts';"), file('src/a/c.ts', "import type { B } from './b.ts';")],
    [
      file('src/a/b.ts', "export * from './c.ts';"),
      file('src/a/c.ts', "const d = await import('./d.ts');"),
      file('src/a/d.ts', "type B = import('./b.ts').B;"),
    ],
  ],
  fine: [
    file('src/a/b.ts', "import './c.ts'; import './d.ts';"),
    file('src/a/c.ts', "import './d.ts';"),
    file('src/a/d.ts', ''),
    file('src/a/d.test.ts', "import './b.ts';"),
  ],
};

const rooms = [/^src\/store\/[^/]+(?=\/)/, /^console\/src\/features\/[^/]+(?=\/)/, /^console\/src\/[^/]+(?=\/)/];

/**
 * The room of a file: a folder of the store, a feature of the console, or a folder beside the
 * features.
 */
const roomOf = (path: string) => {
  const normal = posix.normalize(path);
  return rooms.map((room) => room.exec(normal)?.[0]).find((room) => room !== undefined);
};

const noRoomCycles: Rule = {
  name: 'rooms of the store and of the console import each other in one direction',
  check: (files) => violations(cyclesIn(importGraph(files, roomOf))),
  broken: [
    [file('src/store/a/x.ts', "import '../b/y.ts';"), file('src/store/b/z.ts', "import '../a/w.ts';")],
    [
      file('console/src/ui/x.tsx', "import '../features/node/y.tsx';"),
      file('console/src/features/node/z.tsx', "import '../../ui/table/x.tsx';"),
    ],
    [
      file('console/src/features/a/x.tsx', "import '../b/y.tsx';"),
      file('console/src/features/b/y.tsx', "import '../a/z.tsx';"),
    ],
  ],
  fine: [
    file('src/store/a/x.ts', "import '../b/y.ts'; import './w.ts';"),
    file('src/store/b/z.ts', "import './y.ts';"),
    file('src/store/open.ts', "import './a/x.ts';"),
    file('console/src/ui/table/x.tsx', "import '../text.ts';"),
    file('console/src/features/a/x.tsx', "import '../../ui/table/x.tsx'; import '../b/y.tsx';"),
    file('console/src/features/b/y.tsx', "import '../../ui/text.ts';"),
    file('src/store/b/z.test.ts', "import '../a/x.ts';"),
  ],
};

export const cycleRules: Rule[] = [noFileCycles, noRoomCycles];

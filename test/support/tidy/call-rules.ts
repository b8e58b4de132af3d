/**
 * Rules about what only some files may do: read a clock, hold SQL, write a status, order evidence.
 */
import {
  child,
  eachFile,
  file,
  importsOf,
  isProduct,
  isServerProduct,
  nodesOf,
  type Rule,
  type SourceFile,
  type SyntaxNode,
  stringsOf,
  textOf,
} from './source.ts';

const clocks = ['src/base/clock.ts', 'src/base/virtual-clock.ts'];
const timers = ['setTimeout', 'setInterval', 'setImmediate'];
const clockMembers = ['Date.now', 'performance.now', 'process.hrtime', 'AbortSignal.timeout', 'performance.timeOrigin'];
const timerModules = ['node:timers', 'node:timers/promises', 'timers', 'timers/promises'];

function readsAClock(source: SourceFile): string[] {
  const isDate = (node: SyntaxNode) => child(node, 'callee')?.name === 'Date';
  const takesNothing = (node: SyntaxNode) => Array.isArray(node.arguments) && node.arguments.length === 0;
  return [
    ...nodesOf(source, 'NewExpression').filter((node) => isDate(node) && takesNothing(node)),
    ...nodesOf(source, 'CallExpression').filter((node) => isDate(node) || timers.includes(calleeName(node))),
    ...nodesOf(source, 'MemberExpression').filter((node) => clockMembers.includes(textOf(source, node))),
  ]
    .map((node) => `${textOf(source, node).split('\n')[0]} is a clock or a timer; take a Clock instead`)
    .concat(
      importsOf(source)
        .filter(({ target }) => timerModules.includes(target))
        .map(({ target }) => `imports ${target}`),
    );
}

/** The name of the called function; `globalThis.setTimeout(…)` counts as `setTimeout`. */
function calleeName(node: SyntaxNode): string {
  const callee = child(node, 'callee');
  const name =
    callee?.name ?? (child(callee, 'object')?.name === 'globalThis' ? child(callee, 'property')?.name : undefined);
  return typeof name === 'string' ? name : '';
}

const oneClock: Rule = {
  name: 'only the clock reads clocks and sets timers',
  check: eachFile((path) => isServerProduct(path) && !clocks.includes(path), readsAClock),
  broken: [
    'const t = Date.now();',
    'const t = new Date();',
    'const t = Date();',
    'setTimeout(() => {}, 5);',
    'globalThis.setInterval(run, 5);',
    'const t = performance.now();',
    'const t = process.hrtime.bigint();',
    'const signal = AbortSignal.timeout(5);',
    'const read = { now: Date.now };',
    "import { setTimeout as sleep } from 'node:timers/promises';",
    'setImmediate(run);',
  ].map((text) => [file('src/sweeps/a.ts', text)]),
  fine: [
    file('src/base/clock.ts', 'setTimeout(() => Date.now(), 5);'),
    file(
      'src/sweeps/a.ts',
      "// Date.now()\nconst t = new Date(5); const text = 'setTimeout()'; clock.after(5, run); clearTimeout(t);",
    ),
    file('src/sweeps/a.test.ts', 'const t = Date.now();'),
    file('console/src/a.tsx', 'setTimeout(() => {}, 5);'),
  ],
};

const sqlHomes = /^src\/(store|engine)\//;
const sqlStart = new RegExp(
  `^\\s*(?:${[
    'select\\b[^]*\\bfrom\\s',
    'select\\s+[a-z_.]+\\(',
    'insert\\s+into\\s',
    'update\\s+[a-z_."]+\\s[^]*\\bset\\s',
    'delete\\s+from\\s',
    'with\\s+(?:recursive\\s+)?[a-z_]+[^]*\\bas\\s+(?:(?:not\\s+)?materialized\\s*)?\\(',
    '(?:create|alter|drop|truncate)\\s+(?:unique\\s+)?(?:table|index|schema|database|role|function)\\b',
    '(?:listen|notify)\\s+[a-z_]+$',
  ].join('|')})`,
  'i',
);

function holdsSql(source: SourceFile): string[] {
  const packages = importsOf(source).filter(({ target }) => /^(pg|kysely)(\/|$)/.test(target));
  return [
    ...stringsOf(source)
      .filter((text) => sqlStart.test(text))
      .map((text) => `holds SQL: ${text.trim().split('\n')[0]}`),
    ...packages.map(({ target }) => `imports ${target}`),
  ];
}

const sqlAtHome: Rule = {
  name: 'only store and engine hold SQL',
  check: eachFile((path) => isProduct(path) && !sqlHomes.test(path), holdsSql),
  broken: [
    "import { Pool } from 'pg';",
    "import type { Kysely } from 'kysely';",
    "const q = 'select * from nodes';",
    "const q = 'SELECT now()';",
    'const q = `\n  WITH due AS (SELECT 1) SELECT 1`;',
    `const q = \`insert into \${table} values (1)\`;`,
    `const q = \`update nodes set x = \${y}\`;`,
    "const q = 'DELETE FROM nodes';",
    "const q = 'create unique index a on b (c)';",
  ].map((text) => [file('src/api/a.ts', text)]),
  fine: [
    file('src/store/a.ts', "import { Pool } from 'pg'; const q = 'select * from nodes';"),
    file(
      'src/cli/a.ts',
      "const a = ['Select a pool', 'update the pool', 'with care', 'Delete it', 'create a pool', 'listen'];",
    ),
    file('test/scenarios/a.test.ts', "const q = 'select * from nodes';"),
  ],
};

const transitions = /^src\/store\/transitions\//;
const guardedTables = '(?:nodes|allocations)';
const setClause = '\\bset\\b(?:(?!\\bwhere\\b|\\bfrom\\b|\\breturning\\b)[^])*?';
const writesStatus = [
  new RegExp(`\\bupdate\\s+(?:only\\s+)?"?${guardedTables}"?\\s(?:(?!\\bset\\b)[^])*${setClause}\\bstatus"?\\s*=`, 'i'),
  new RegExp(`\\binsert\\s+into\\s+"?${guardedTables}"?\\s[^]*\\bdo\\s+update\\s+${setClause}\\bstatus"?\\s*=`, 'i'),
];
const buildsStatusUpdate = new RegExp(`updateTable\\(['"\`]${guardedTables}\\b[^;]*\\.set\\([^;]*\\bstatus\\b`);

function writesAStatus(source: SourceFile): string[] {
  const texts = source.path.endsWith('.sql') ? [source.text] : stringsOf(source);
  const statusWrites = texts.filter((text) => writesStatus.some((pattern) => pattern.test(text)));
  const builtQueries = buildsStatusUpdate.test(source.text) ? ['a query built from parts'] : [];
  return [...statusWrites, ...builtQueries].map(
    (text) => `writes a status outside store/transitions: ${text.trim().split('\n')[0]}`,
  );
}

const isQuery = (path: string) =>
  isServerProduct(path) || (/^src\/.*\.sql$/.test(path) && !path.includes('/migrations/'));

const onlyTransitions: Rule = {
  name: 'only store/transitions writes the status of a node or an allocation',
  check: eachFile((path) => isQuery(path) && !transitions.test(path), writesAStatus),
  broken: [
    [file('src/store/rows/nodes.ts', "const q = `update nodes set status = 'ready' where node_id = $1`;")],
    [
      file(
        'src/store/rows/nodes.ts',
        'const q = `UPDATE nodes n\n SET deadline_at = $1,\n status = $2 FROM due WHERE true`;',
      ),
    ],
    [
      file(
        'src/store/a.ts',
        `const q = \`with due as (select 1) update allocations set x = \${y}, status = 'failed'\`;`,
      ),
    ],
    [
      file(
        'src/store/a.ts',
        'const q = `insert into nodes (node_id) values ($1) on conflict (node_id) do update set status = $2`;',
      ),
    ],
    [file('src/store/a.ts', "db.updateTable('nodes').set({ status: 'ready' }).execute();")],
    [file('src/store/sweep.sql', "update nodes set status = 'ready';")],
  ],
  fine: [
    file('src/store/transitions/node-transition.ts', "const q = 'update nodes set status = $1';"),
    file('src/store/transitions/allocation-transition.ts', "const q = 'update allocations set status = $1';"),
    file('src/store/rows/nodes.ts', "const q = `update nodes set seen_at = $1 where status = 'ready'`;"),
    file('src/store/operations/operations.ts', "const q = `update operations set status = 'running'`;"),
    file('src/store/agents/tasks.ts', "const q = 'select status from nodes where status = $1';"),
    file('src/store/migrations/0002.sql', "update nodes set status = 'ready';"),
  ],
};

/** Functions whose result says whether the status changed; a refused transition changes nothing. */
const statusChanges = ['transition', 'moveAllocations'];

function ignoresAnOutcome(source: SourceFile): string[] {
  const ignoredOutcomes = [
    ...nodesOf(source, 'ExpressionStatement').map((node) => child(node, 'expression')),
    ...nodesOf(source, 'UnaryExpression')
      .filter((node) => node.operator === 'void')
      .map((node) => child(node, 'argument')),
  ];
  return ignoredOutcomes.flatMap((expression) => {
    const call = expression?.type === 'AwaitExpression' ? child(expression, 'argument') : expression;
    const name = call?.type === 'CallExpression' ? calleeName(call) : '';
    return statusChanges.includes(name) ? [`ignores the outcome of ${name}; pass it to requireMoved`] : [];
  });
}

const outcomesAreRead: Rule = {
  name: 'no caller ignores whether a status was changed',
  check: eachFile(isServerProduct, ignoresAnOutcome),
  broken: [
    'await transition(tx, moves, now, environment);',
    'transition(tx, moves, now, environment);',
    'void moveAllocations(tx, moves, now, environment);',
    'async () => { await moveAllocations(tx, moves, now, environment); }',
  ].map((text) => [file('src/operations/finish.ts', text)]),
  fine: [
    file(
      'src/operations/finish.ts',
      'requireMoved(await transition(tx, moves, now, environment));\nconst [outcome] = await moveAllocations(tx, moves, now, environment);',
    ),
  ],
};

const mayCompareTransactionIds = ['src/store/evidence/commit-order.ts', 'src/store/evidence/eras.ts'];

const oneCommitOrder: Rule = {
  name: 'only commit-order.ts and eras.ts compare transaction ids',
  check: eachFile(
    (path) => isServerProduct(path) && !mayCompareTransactionIds.includes(path),
    (source) =>
      stringsOf(source)
        .filter((text) => /pg_(current_)?snapshot|evidence_(settled_below|position|era)\b/.test(text))
        .map(
          (text) => `compares transaction ids; use src/store/evidence/commit-order.ts: ${text.trim().split('\n')[0]}`,
        ),
  ),
  broken: [
    "const q = 'select * from evidence where xid < pg_snapshot_xmin(pg_current_snapshot())';",
    'const q = `select * from evidence where xid < evidence_settled_below()`;',
  ].map((text) => [file('src/store/rows/a.ts', text)]),
  fine: [
    file('src/store/evidence/commit-order.ts', "const q = 'xid < evidence_settled_below()';"),
    file('src/store/rows/a.ts', "const q = 'select xid from evidence order by xid, seq';"),
  ],
};

export const callRules: Rule[] = [oneClock, sqlAtHome, onlyTransitions, outcomesAreRead, oneCommitOrder];

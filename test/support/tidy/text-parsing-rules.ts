/**
 * A rule against code that parses text written for people. Code reads the codes and typed fields
 * that accompany such a text.
 */
import {
  child,
  eachFile,
  file,
  isProduct,
  nodesOf,
  type Rule,
  type SourceFile,
  type SyntaxNode,
  stringsOf,
  textOf,
} from './source.ts';

/** Names of fields that hold rendered text. */
const renderedNames = new Set([
  'detail',
  'does',
  'label',
  'leads_to',
  'means',
  'message',
  'reason',
  'remedy',
  'says',
  'sentence',
  'summary',
  'title',
  'waiting_for',
  'why',
  'why_not',
]);

/**
 * String methods that inspect the text. Arrays have some of them too, but are not called by the
 * names above.
 */
const stringMethods = new Set([
  'endsWith',
  'includes',
  'indexOf',
  'lastIndexOf',
  'match',
  'matchAll',
  'replace',
  'replaceAll',
  'search',
  'split',
  'startsWith',
]);
const patternMethods = new Set(['exec', 'test']);
const comparisons = new Set(['===', '!==', '==', '!=']);

/** Files that may parse text, and why. Remove a file from the list once it parses no text. */
const allowedFiles: Record<string, string> = {
  // Foreign text, where the other side offers nothing better.
  'src/base/process-use.ts': 'the kernel names each limit of a process in words',
  'src/contract/agent/boot-report/lines.ts': 'cloud-init prints its report',
  'src/drivers/aks/azure/azure-failure.ts': 'Azure gives several failures the same code',
  'src/drivers/docker/engine-error.ts': 'Docker and Podman answer with a status and words',
  'src/drivers/docker/pull.ts': 'a registry reports states and refusals in words',
  'src/drivers/ec2/inspect.ts': 'a machine that did not start reports only on its serial console',
  'src/drivers/ec2/secrets.ts': 'redacts what AWS appends to its messages',
  'src/engine/dbos-logger.ts': 'DBOS logs sentences',
  'src/lifecycle/findings/diagnosis.ts': 'kernels, cloud-init and runtimes write to a console',
  'src/lifecycle/model/reports.ts': 'a machine may report any text; its blanks are folded',
  'src/operations/runtime/start-failure.ts': 'the driver of PostgreSQL has no code for a missing password',
  'src/store/testing/step-faults.ts': 'the dump of a schema is text',
  'src/store/pg/database.ts': 'the driver of PostgreSQL has no code for a connection that broke',
  'src/store/pg/embedded/directory-lock.ts':
    'application_name is the only field of a connection that other connections see',
  // A key=value selector that happens to be called a label.
  'src/store/rows/allocations.ts': 'splits a selector',
  // Rendering: these fill in or shorten a text and decide nothing by it.
  'src/agent/connection/call-failure.ts': 'names the error once',
  'src/drivers/ec2/cloud-failure.ts': 'names the error once',
  'src/cli/terminal/failure.ts': 'leaves out what the detail already says',
  'console/src/features/audit/words.ts': 'leaves out a reason that the summary already says',
  'console/src/ui/time/times.ts': 'shows moments in local time',
  'src/cli/commands/evidence/audit.ts': 'names the target once',
  'src/contract/client.ts': 'fills a placeholder of the error catalogue',
  'src/doctor/examine.ts': 'fills a placeholder of the error catalogue',
  'src/relay/batcher.ts': 'ends the sentence once',
};

/**
 * The name of the inspected value: `reason` for `(a.reason ?? '')`, `String(a.reason)` and
 * `a?.reason!`.
 */
function nameOf(node: SyntaxNode | undefined): string {
  switch (node?.type) {
    case 'Identifier':
      return String(node.name);
    case 'MemberExpression':
      return node.computed === true ? '' : nameOf(child(node, 'property'));
    case 'ChainExpression':
    case 'ParenthesizedExpression':
    case 'TSNonNullExpression':
    case 'TSAsExpression':
      return nameOf(child(node, 'expression'));
    case 'LogicalExpression':
      return nameOf(child(node, 'left'));
    case 'CallExpression':
      return nameOf(child(node, 'callee')) === 'String' ? nameOf(firstArgument(node)) : '';
    default:
      return '';
  }
}

function firstArgument(node: SyntaxNode): SyntaxNode | undefined {
  const [first] = (node.arguments ?? []) as SyntaxNode[];
  return first;
}

/** True for a phrase; false for a separator, a header's value or a single word. */
const isProse = (text: unknown): boolean => typeof text === 'string' && /[a-z]{2,} [a-z]{2,}/.test(text);

function literalOf(node: SyntaxNode | undefined): unknown {
  if (node?.type === 'Literal') return node.value;
  const quasis = node?.type === 'TemplateLiteral' ? (node.quasis as SyntaxNode[]) : [];
  return quasis.length === 1 ? (quasis[0]?.value as { cooked?: unknown } | undefined)?.cooked : undefined;
}

const looksIntoText = (call: SyntaxNode): boolean => {
  const callee = child(call, 'callee');
  if (callee?.type !== 'MemberExpression') return false;
  const method = nameOf(callee);
  if (patternMethods.has(method)) return renderedNames.has(nameOf(firstArgument(call)));
  if (!stringMethods.has(method)) return false;
  return renderedNames.has(nameOf(child(callee, 'object'))) || isProse(literalOf(firstArgument(call)));
};

const comparesProse = (node: SyntaxNode): boolean =>
  comparisons.has(String(node.operator)) && ['left', 'right'].some((side) => isProse(literalOf(child(node, side))));

const patternOf = (node: SyntaxNode) => (node.regex as { pattern: string } | undefined)?.pattern ?? '';

/** A lower-case word followed by a blank, as in `/^crashed (\S+) /`. */
const isPatternOfProse = (node: SyntaxNode): boolean => /(?<![\\[a-z])[a-z]{3,} (?![+*?{])/.test(patternOf(node));

const sqlOnText = new RegExp(
  `\\bstarts_with\\s*\\(|\\b(?:${[...renderedNames].join('|')})\\s+(?:not\\s+)?(?:i?like|similar\\s+to)\\b|\\b(?:reason|summary|message)\\s*!?~`,
  'i',
);

function readsProse(source: SourceFile): string[] {
  const nodes = [
    ...nodesOf(source, 'CallExpression').filter(looksIntoText),
    ...nodesOf(source, 'BinaryExpression').filter(comparesProse),
    ...nodesOf(source, 'SwitchCase').filter((node) => isProse(literalOf(child(node, 'test')))),
    ...nodesOf(source, 'Literal').filter(isPatternOfProse),
  ];
  const queries = stringsOf(source).filter((text) => sqlOnText.test(text));
  return [...nodes.map((node) => textOf(source, node)), ...queries].map(
    (text) => `reads a text that was written for people; pass a code instead: ${text.trim().split('\n')[0]}`,
  );
}

const isStale = (source: SourceFile) =>
  readsProse(source).length === 0 ? ['is on the list of text-parsing-rules.ts but parses no text'] : [];
const readers = eachFile((path) => isProduct(path) && !(path in allowedFiles), readsProse);
const staleEntries = eachFile((path) => path in allowedFiles, isStale);

const noProseAsData: Rule = {
  name: 'no code reads rendered text back',
  check: (files) => [...readers(files), ...staleEntries(files)],
  broken: [
    "if (allocation.reason?.startsWith('its machine')) stop();",
    'const rule = /by (.+)/.exec(step.leads_to)?.[1];',
    "const isForced = /^Released/.test(operation.progress.message ?? '');",
    "const [first] = summary.split(':');",
    "const words = (node.reason ?? 'none').replace(/;.*$/, '');",
    'const same = String(finding.reason).replaceAll(/[0-9]/g, "#");',
    "if (sign === 'an operator gave it more time') stop();",
    'if (`it is gone` !== text) stop();',
    "switch (text) { case 'it is gone': stop(); }",
    "if (line.includes('was lost for good')) stop();",
    'const found = pattern.exec(line); const pattern = /^crashed (\\S+) /;',
    "const q = `select 1 from boot_signs where starts_with(sign, 'crashed')`;",
    "const q = `select 1 from findings where reason like 'its%'`;",
  ]
    .flatMap((text) => [[file('src/sweeps/a.ts', text)], [file('console/src/ui/a.tsx', text)]])
    .concat([[file('src/store/pg/database.ts', 'const isStalePlan = sqlState(error) === "0A000";')]]),
  fine: [
    file('src/store/pg/database.ts', 'const isStalePlan = /cached plan/.test(error.message);'),
    file(
      'src/sweeps/a.ts',
      [
        "// reason.startsWith('its machine')",
        "const a = verdict.rule === 'liveness' && fact.kind.startsWith('node.') && reason === null;",
        "const b = statuses.includes(node.status) || header.split(', ') || text.replace(/ +$/, '');",
        "const c = (reason + message).length > 5 && said.reason === verdict.reason && cell.split(' ');",
        'const d = pattern.test(line) && /^(\\d+) (\\d+)$/.exec(cell) && reasons.includes(code);',
        "const e = `select 1 from evidence where kind like 'node.%' and reason = $1`;",
        "const f = says('it is gone');",
      ].join('\n'),
    ),
    file('src/sweeps/a.test.ts', "expect(node.reason.includes('its machine')).toBe(true);"),
  ],
};

export const textParsingRules: Rule[] = [noProseAsData];

/**
 * Writes the tables and diagrams of docs/explanation/concepts.md from the tables of the code:
 * `bin/run scripts/generate-concepts.ts`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ActionRow } from '../src/lifecycle/actions/action-table.ts';
import { nodeActions } from '../src/lifecycle/actions/actions.ts';
import { allocationActions } from '../src/lifecycle/actions/allocation-actions.ts';
import { defaultBudgets, defaultRuntimeClasses } from '../src/lifecycle/deadlines/budgets.ts';
import {
  allocationStatuses,
  isFenced,
  nodeStatuses,
  nodeStatusNames,
  type StatusDeclaration,
} from '../src/lifecycle/model/states.ts';
import {
  allocationEdges,
  type Cause,
  causes,
  type Edge,
  isVerdict,
  nodeEdges,
  pairedChanges,
} from '../src/lifecycle/model/transitions.ts';
import { fillSections } from './generator/marked-sections.ts';
import { runGenerator } from './generator/run-generator.ts';

const row = (...cells: string[]) => `| ${cells.join(' | ')} |`;
const table = (head: string[], rows: string[][]) =>
  [row(...head), row(...head.map(() => '---')), ...rows.map((cells) => row(...cells))].join('\n');
const code = (text: string) => `\`${text}\``;

function statusTable(statuses: Record<string, StatusDeclaration>, fenced: (name: string) => boolean): string {
  const rows = Object.entries(statuses).map(([name, status]) => [
    code(name),
    status.class,
    status.deadline ? code(status.deadline) : '',
    fenced(name) ? 'fenced' : '',
    status.means,
  ]);
  return table(['status', 'class', 'deadline', '', 'means'], rows);
}

/**
 * Returns the causes that lead to one status from almost all others. Their arrows would clutter the
 * diagram.
 */
function frequentCauses<S extends string>(edges: readonly Edge<S>[], to: S, minSources: number): Cause[] {
  const into = edges.filter((edge) => edge.to === to);
  const all = [...new Set(into.flatMap((edge) => edge.by))];
  return all.filter((by) => into.filter((edge) => edge.by.includes(by)).length >= minSources);
}

const minSourceStatuses = nodeStatusNames.length - 2;

function diagram<S extends string>(edges: readonly Edge<S>[], omitted: (to: S) => Cause[]): string {
  const arrows = edges
    .map((edge) => ({ ...edge, by: edge.by.filter((by) => !omitted(edge.to).includes(by)) }))
    .filter((edge) => edge.by.length > 0)
    .map((edge) => `  ${edge.from === 'new' ? '[*]' : edge.from} --> ${edge.to}: ${edge.by.join(', ')}`);
  return ['```mermaid', 'stateDiagram-v2', ...arrows, '```'].join('\n');
}

const sourceOf = (by: Cause) => (isVerdict(by) ? `**${by}**` : by);

function edgeTable<S extends string>(edges: readonly Edge<S>[]): string {
  const rows = edges.map((edge) => [
    edge.from === 'new' ? '(new)' : code(edge.from),
    code(edge.to),
    edge.by.map(sourceOf).join(', '),
  ]);
  return table(['from', 'to', 'by'], rows);
}

const causeTable = () =>
  table(
    ['cause', 'brought about by', 'because'],
    (Object.keys(causes) as Cause[]).map((by) => [sourceOf(by), triggerOf(causes[by].trigger), causes[by].says]),
  );

/** Uses the word of the glossary for the trigger `claim`. */
const triggerOf = (trigger: string) => (trigger === 'claim' ? 'report' : trigger);

const pairTable = () =>
  table(
    ['when the node goes', 'from', 'an allocation that is', 'becomes', 'by'],
    pairedChanges.map(({ node, allocation }) => [
      code(node.to),
      node.from.map(code).join(', '),
      code(allocation.from),
      code(allocation.to),
      allocation.by,
    ]),
  );

function budgetTable(): string {
  const classes = Object.entries(defaultRuntimeClasses).flatMap(([name, settings]) =>
    Object.entries(settings).map(([setting, seconds]) => [
      code(setting),
      `${seconds} s`,
      `runtime class ${code(name)}`,
    ]),
  );
  const defaults = Object.entries(defaultBudgets).map(([phase, seconds]) => [
    phase === 'clean' ? `${code('release_seconds')} (cleaning)` : code(`${phase}_seconds`),
    `${seconds} s`,
    'default',
  ]);
  return table(['setting', 'seconds', 'source'], [...defaults, ...classes]);
}

const actorTexts = { tenant: "the tenant's operators too", fleet: 'operators of the fleet' } as const;

/**
 * Lists only the statuses that allow an action. Other conditions depend on the node or allocation,
 * and `slipway actions` shows them.
 */
function actionTable(
  actions: Record<string, Pick<ActionRow<string, never>, 'does' | 'for' | 'from' | 'whyNot'>>,
): string {
  const rows = Object.entries(actions).map(([name, { does, for: owner, from, whyNot }]) => [
    code(name),
    does,
    from.map(code).join(', ') + (whyNot ? '; with a condition' : ''),
    actorTexts[owner],
  ]);
  return table(['action', 'what it does', 'available in', 'for'], rows);
}

const sections: Record<string, () => string> = {
  'node-actions': () => actionTable(nodeActions),
  'allocation-actions': () => actionTable(allocationActions),
  'node-statuses': () =>
    statusTable(nodeStatuses, (name) => nodeStatusNames.some((each) => each === name && isFenced(each))),
  'node-diagram': () => {
    const anywhere = (['cleaning', 'quarantined'] as const).map((to) => ({
      to,
      by: frequentCauses(nodeEdges, to, minSourceStatuses),
    }));
    const words = anywhere.map(({ to, by }) => `to ${code(to)} by ${by.join(', ')}`).join('; ');
    return `${diagram(nodeEdges, (to) => anywhere.find((each) => each.to === to)?.by ?? [])}\n\nThese are not drawn, because they lead there from every status except ${code('retired')}: ${words}.`;
  },
  'node-edges': () => edgeTable(nodeEdges),
  'allocation-statuses': () => statusTable(allocationStatuses, () => false),
  'allocation-diagram': () => diagram(allocationEdges, () => []),
  'allocation-edges': () => edgeTable(allocationEdges),
  pairs: pairTable,
  causes: causeTable,
  budgets: budgetTable,
};

/** Returns the document with every marked section regenerated. */
export const withSections = (document: string): string =>
  fillSections('docs/explanation/concepts.md', document, sections);

export const conceptsPath = join(import.meta.dirname, '../docs/explanation/concepts.md');

if (import.meta.main)
  await runGenerator({ 'docs/explanation/concepts.md': () => withSections(readFileSync(conceptsPath, 'utf8')) });

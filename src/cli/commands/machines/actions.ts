/** `slipway actions`: lists available actions, and why the other ones are not available. */
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { resolveNode, resolveThing } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { actionLines } from '../../render/machines/actions.ts';
import { hintLines, renderContext } from '../../render/text/hints.ts';
import { type fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { targetKindOf } from '../../wait/subject.ts';

/** Fetches the actions of an allocation or a node; for an operation, those of its machine. */
async function fetchActions(session: Session, word: string) {
  const { kind, id } = await resolveThing(session, word);
  if (kind === 'allocation') return { id, ...(await session.call('allocation-actions', { params: { id } })) };
  const { node_id } = await resolveNode(session, id, 'it has no actions');
  return { id: node_id, ...(await session.call('node-actions', { params: { id: node_id } })) };
}

export const makeActions: MakeCommand = (cli) =>
  new SlipwayCommand('actions')
    .description('List what you can do about a node or an allocation now, and why other actions are not available.')
    .argument('<id>', 'an allocation, a node, or an operation on one')
    .action(
      cli.run(async (session, _, [word = '']) => {
        const { id, items } = await fetchActions(session, word);
        const { out } = session.terminal;
        const context = renderContext(session);
        if (session.json) printJson(out, { items });
        else printLines(out, [...actionLines(id, items, context), ...(await fetchMachineHint(session, id, context))]);
        return undefined;
      }),
    );

/** Points from an allocation to the actions of its machine. */
async function fetchMachineHint(session: Session, id: string, { paint }: ReturnType<typeof fitOf>): Promise<string[]> {
  if (targetKindOf(id) !== 'allocation') return [];
  const { node_id } = await session.call('allocation-get', { params: { id } });
  return node_id
    ? ['', ...hintLines([['See the actions of its machine', session.commandLine('actions', node_id)]], paint)]
    : [];
}

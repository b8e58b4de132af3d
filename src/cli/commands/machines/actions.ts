/** `slipway actions`: what may be done about a machine or an allocation now, what not, and why not. */
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { nodeBehind } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { namedThing } from '../../names/named-thing.ts';
import { hintLines } from '../../render/allocations/outcome.ts';
import { actionLines } from '../../render/machines/actions.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { kindOfId } from '../../wait/subject.ts';

/** An allocation has actions of its own, which do not need a machine; what is named by an operation is the machine. */
async function offersFor(session: Session, word: string) {
  const { kind, id } = await namedThing(session, word);
  if (kind === 'allocation') return { id, ...(await session.call('allocation-actions', { params: { id } })) };
  const { node_id } = await nodeBehind(session, id, 'nothing can be done about one');
  return { id: node_id, ...(await session.call('node-actions', { params: { id: node_id } })) };
}

export const makeActions: MakeCommand = (cli) =>
  new SlipwayCommand('actions')
    .description('List what you can do about a node or an allocation now, and why the rest is not open.')
    .argument('<id>', 'the allocation, the node, or an operation on it')
    .action(
      cli.run(async (session, _, [asked = '']) => {
        const { id, items } = await offersFor(session, asked);
        const { out } = session.terminal;
        const context = { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine };
        if (session.json) printJson(out, { items });
        else printLines(out, [...actionLines(id, items, context), ...(await machineHint(session, id, context))]);
        return undefined;
      }),
    );

/** What is done to the machine alone is listed there. */
async function machineHint(session: Session, id: string, { paint }: ReturnType<typeof fitOf>): Promise<string[]> {
  if (kindOfId(id) !== 'allocation') return [];
  const { node_id } = await session.call('allocation-get', { params: { id } });
  return node_id
    ? ['', ...hintLines([['See what else its machine takes', session.commandLine('actions', node_id)]], paint)]
    : [];
}

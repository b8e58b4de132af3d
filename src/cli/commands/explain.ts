/** `slipway explain`: why a machine stands where it stands, and what happens next. */
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { type NodeBehind, nodeBehind } from '../node-behind.ts';
import { openActionLines } from '../render/actions.ts';
import type { ClosingContext } from '../render/closing.ts';
import { explanationLines } from '../render/explanation.ts';
import { printable } from '../render/text.ts';
import type { Session } from '../session.ts';
import { kindOfId } from '../subject.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

/** Who named an allocation wants to hear of it as well. */
const throughLine = ({ through, node_id }: NodeBehind, id: string): string[] => {
  if (!through) return [];
  const reason = 'reason' in through && through.reason ? `: ${printable(through.reason)}` : '';
  return [`${id} is ${through.status}${reason}`, `Its machine is ${node_id}:`, ''];
};

/** Of a machine that is gone nothing is open any more; of the allocation that it leaves behind there is. */
async function leftToDo(session: Session, id: string, context: ClosingContext): Promise<string[]> {
  if (kindOfId(id) !== 'allocation') return [];
  const { items } = await session.call('allocation-actions', { params: { id } });
  const open = openActionLines(id, items, context);
  return open.length > 0 ? ['', context.paint('strong', 'What you can do about the allocation'), ...open] : [];
}

export const makeExplain: MakeCommand = (cli) =>
  new SlipwayCommand('explain')
    .description('Say why a node stands where it stands, what it waits for, what happens next and what you can do.')
    .argument('<id>', 'the node, or an allocation or operation on it')
    .examples('slipway explain node_…', 'slipway explain alloc_…')
    .action(
      cli.run(async (session, _, [id = '']) => {
        const behind = await nodeBehind(session, id, 'there is nothing to explain');
        const params = { id: behind.node_id };
        const [explanation, node] = await Promise.all([
          session.call('node-explain', { params }),
          session.call('node-get', { params }),
        ]);
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, explanation);
          return;
        }
        const context = { ...fitOf(out), nowMs: session.clock.nowMs(), commandLine: session.commandLine };
        printLines(out, [
          ...throughLine(behind, id),
          ...explanationLines(explanation, node, context),
          ...(node.status === 'retired' ? await leftToDo(session, id, context) : []),
        ]);
        return undefined;
      }),
    );

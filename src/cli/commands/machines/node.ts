/** `slipway node`: shows one node in full, now or at an earlier moment. */
import { Option } from 'commander';
import { RequestRefused } from '../../../contract/client.ts';
import type { NodeState } from '../../../contract/node.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { resolveNode } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { suggestionLines } from '../../render/machines/explanation.ts';
import { nodeLines, stateLines } from '../../render/machines/node.ts';
import { momentInFull } from '../../render/text/duration.ts';
import { renderContext } from '../../render/text/hints.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { momentOrAgo, type Since, toMoment } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

/** Fetches a past state. Distinguishes an unknown node from one that did not exist yet. */
async function fetchStateAt(session: Session, id: string, at: string): Promise<NodeState> {
  try {
    return await session.call('node-state', { params: { id }, query: { at } });
  } catch (error) {
    if (!(error instanceof RequestRefused && error.problem.code === 'node_not_found')) throw error;
    const { created_at } = await session.call('node-get', { params: { id } });
    if (Date.parse(created_at) <= Date.parse(at)) throw error;
    throw new CliFailure('refused', `${id} did not exist then`, {
      why: `It was created at ${momentInFull(created_at)}; you asked for ${momentInFull(at)}.`,
      remedy: `Choose a later moment, or see its whole history: ${session.commandLine('timeline', id)}`,
      cause: error,
    });
  }
}

export const makeNode: MakeCommand = (cli) =>
  new SlipwayCommand('node')
    .description(
      'Show one node: its status and why, its deadline, what it and its provider report, and what you can do.',
    )
    .argument('<id>', 'the id or name of a node, or of an allocation or operation on it')
    .addOption(
      new Option('--at <time>', 'show its state at this moment, or this long ago: 15m, 2h').argParser(momentOrAgo),
    )
    .examples('slipway node node_…', 'slipway node node_… --at 2h')
    .action(
      cli.run<{ at?: Since }>(async (session, options, [word = '']) => {
        const { node_id: id } = await resolveNode(session, word, 'there is no node to show');
        const at = toMoment(options.at, session.clock);
        if (at !== undefined) {
          const state = await fetchStateAt(session, id, at);
          const { out } = session.terminal;
          if (session.json) printJson(out, state);
          else printLines(out, stateLines(state, fitOf(out)));
          return undefined;
        }
        const node = await session.call('node-get', { params: { id } });
        const { out } = session.terminal;
        if (session.json) {
          printJson(out, node);
          return undefined;
        }
        const explanation = await session.call('node-explain', { params: { id } });
        const context = renderContext(session);
        const actionLines = suggestionLines(explanation, context);
        printLines(out, [
          ...nodeLines(node, explanation, context.nowMs, context),
          ...(actionLines.length > 0 ? ['', context.paint('strong', 'What you can do'), ...actionLines] : []),
        ]);
        return undefined;
      }),
    );

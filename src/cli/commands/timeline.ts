/** `slipway timeline`: everything that is known about a thing, from every layer, in the order of time. */
import { Option } from 'commander';
import { type Evidence, type EvidenceLayer, evidenceLayers } from '../../contract/evidence.ts';
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { CliFailure } from '../failure.ts';
import { limitOption, type Since, sinceOption, startOf } from '../option-values.ts';
import { collect } from '../pages.ts';
import { inOrderOfTime, timelineLines } from '../render/evidence.ts';
import { printable } from '../render/text.ts';
import type { Session } from '../session.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

interface Options {
  layer?: EvidenceLayer;
  kind?: string;
  since?: Since;
  limit: number;
}

type IdField = 'node_id' | 'node_instance_id' | 'allocation_id' | 'workflow_id' | 'correlation_id';
const fields: Record<string, IdField> = {
  node: 'node_id',
  inst: 'node_instance_id',
  alloc: 'allocation_id',
  op: 'workflow_id',
};

/** What carries none of our prefixes came from outside: a correlation id. */
export const fieldOfId = (id: string): IdField => fields[id.slice(0, id.indexOf('_'))] ?? 'correlation_id';

/** An id that nobody knows is a mistake of the person, who must hear of it; filters that let nothing through are not. */
async function mustBeKnown(session: Session, id: string): Promise<void> {
  const { items } = await session.call('timeline-get', { query: { [fieldOfId(id)]: id, limit: 1 } });
  if (items.length > 0) return;
  throw new CliFailure('failed', `Nothing is known about ${printable(id)}`, {
    why: 'No node, instance, allocation, operation or request has this id, or your token may not see it.',
    remedy: `Check it for a slip; see what there is: ${session.commandLine('nodes', '--all')}`,
  });
}

export const makeTimeline: MakeCommand = (cli) =>
  new SlipwayCommand('timeline')
    .description('Show the evidence about a thing, from every layer, oldest first.')
    .argument('<id>', 'a node, an instance, an allocation, an operation or a correlation id')
    .addOption(new Option('--layer <layer>', 'only from this layer').choices(evidenceLayers))
    .option('--kind <kind>', 'only of this kind')
    .addOption(sinceOption())
    .addOption(limitOption(200))
    .examples('slipway timeline alloc_…', 'slipway timeline node_… --layer rule --since 2h')
    .action(
      cli.run<Options>(async (session, { layer, kind, since, limit }, [id = '']) => {
        const start = startOf(since, session.clock);
        const query = {
          [fieldOfId(id)]: id,
          ...(layer && { layer }),
          ...(kind && { kind }),
          ...(start && { since: start }),
          // The newest are asked for, so that a limit leaves out what is long past; they are shown in the order of time.
          order: 'newest' as const,
        };
        const { items, truncated } = await collect<Evidence>(
          (paging) => session.call('timeline-get', { query: { ...query, ...paging } }),
          limit,
        );
        items.reverse();
        if (items.length === 0) await mustBeKnown(session, id);
        const { out, err } = session.terminal;
        if (session.json) printJson(out, { items, truncated });
        else if (items.length === 0) printLines(out, [`There is evidence about ${id}, but none that matches.`]);
        else printLines(out, timelineLines(inOrderOfTime(items), fitOf(out)));
        if (truncated && !session.json)
          printLines(err, [err.paint('warn', 'There is older evidence; raise --limit to see it.')]);
        return undefined;
      }),
    );

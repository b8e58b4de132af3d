/** `slipway timeline`: shows the evidence about a thing from every layer, oldest first. */
import { Option } from 'commander';
import { idFieldOf, type KnownIds } from '../../../base/ids.ts';
import type { Evidence, EvidenceLayer } from '../../../contract/evidence/evidence.ts';
import { evidenceLayers } from '../../../contract/evidence/evidence-layers.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { resolveThing, unknownId } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { sortByTime, timelineLines } from '../../render/evidence/evidence.ts';
import { limitOption, type Since, sinceOption, toMoment } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

interface Options {
  layer?: EvidenceLayer;
  kind?: string;
  since?: Since;
  limit: number;
}

/** Returns the field that holds the id. An id of no other kind is taken as a correlation id. */
export const fieldOfId = (id: string): keyof KnownIds => idFieldOf(id) ?? 'correlation_id';

/** Fails for an unknown id. Filters that match nothing are no error. */
async function requireKnown(session: Session, id: string): Promise<void> {
  const { items } = await collect<Evidence>(
    (paging) => session.call('timeline-get', { query: { [fieldOfId(id)]: id, ...paging } }),
    1,
  );
  if (items.length === 0) throw unknownId(session, id);
}

/** A correlation id in our own format. */
const ownCorrelationId = /^[0-9a-f]{32}$/;

/** Returns an id in a known format as it is, and lets the server resolve anything else. */
async function resolveSubject(session: Session, word: string): Promise<string> {
  if (fieldOfId(word) !== 'correlation_id' || ownCorrelationId.test(word)) return word;
  const { as_request } = await session.call('thing-find', { query: { id: word } });
  return as_request ? word : (await resolveThing(session, word)).id;
}

export const makeTimeline: MakeCommand = (cli) =>
  new SlipwayCommand('timeline')
    .description('Show the evidence about a thing, from every layer, oldest first.')
    .argument('<id>', 'a node, an instance, an allocation, an operation or a correlation id; or a name')
    .addOption(new Option('--layer <layer>', 'only from this layer').choices(evidenceLayers))
    .option('--kind <kind>', 'only of this kind')
    .addOption(sinceOption())
    .addOption(limitOption(200))
    .examples('slipway timeline alloc_…', 'slipway timeline node_… --layer rule --since 2h')
    .action(
      cli.run<Options>(async (session, { layer, kind, since, limit }, [word = '']) => {
        const id = await resolveSubject(session, word);
        const start = toMoment(since, session.clock);
        const query = {
          [fieldOfId(id)]: id,
          ...(layer && { layer }),
          ...(kind && { kind }),
          ...(start && { since: start }),
          // A limit must leave out the oldest facts, so fetch the newest and reverse them.
          order: 'newest' as const,
        };
        const { items, truncated } = await collect<Evidence>(
          (paging) => session.call('timeline-get', { query: { ...query, ...paging } }),
          limit,
        );
        items.reverse();
        if (items.length === 0) await requireKnown(session, id);
        const { out, err } = session.terminal;
        if (session.json) printJson(out, { items, truncated });
        else if (items.length === 0) printLines(out, [`No evidence about ${id} matches the filters.`]);
        else printLines(out, timelineLines(sortByTime(items), fitOf(out)));
        if (truncated && !session.json)
          printLines(err, [err.paint('warn', 'There is older evidence. Raise --limit to see it.')]);
        return undefined;
      }),
    );

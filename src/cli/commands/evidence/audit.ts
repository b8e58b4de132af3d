/** `slipway audit`: shows who did what and who was refused, oldest first. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { sortByTime, timelineLines } from '../../render/evidence/evidence.ts';
import { limitOption, type Since, sinceOption, toMoment } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

/**
 * Returns the id of the target. A recorded call has it in the path parameters, an action in
 * `target_id`, and any other fact in a field for its kind.
 */
function targetOf({ data, node_id, allocation_id, workflow_id }: Evidence): string | null {
  const pathParams = (data.params ?? {}) as Record<string, unknown>;
  const names = [data.target_id, pathParams.id, pathParams.pool, pathParams.name, data.residue_id, data.finding_id];
  return [...names, node_id, allocation_id, workflow_id].find((name) => typeof name === 'string') as string | null;
}

function withTarget(fact: Evidence): Evidence {
  const target = targetOf(fact);
  return !target || fact.summary.includes(target) ? fact : { ...fact, summary: `${target}  ${fact.summary}` };
}

interface Options {
  target?: string;
  actor?: string;
  action?: string;
  code?: string;
  kind?: string;
  since?: Since;
  limit: number;
}

export const makeAudit: MakeCommand = (cli) =>
  new SlipwayCommand('audit')
    .description('Show who did what and who was refused what, oldest first.')
    .option('--target <id>', 'only about this node, allocation, operation, residue, finding, pool or token')
    .option('--actor <who>', 'only by this token (its id or name) or address')
    .option('--action <action>', 'only this action, or calls of this operation id')
    .option('--code <code>', 'only refusals with this error code')
    .option('--kind <kind>', 'only of this kind: action.done, action.refused, request.denied, request.served, …')
    .addOption(sinceOption())
    .addOption(limitOption(200))
    .examples('slipway audit --target node_… --since 2h', 'slipway audit --kind action.refused --actor ci')
    .action(
      cli.run<Options>(async (session, { target, actor, action, code, kind, since, limit }) => {
        const start = toMoment(since, session.clock);
        const query = {
          ...(target && { target_id: target }),
          ...(actor && { actor }),
          ...(action && { action }),
          ...(code && { code }),
          ...(kind && { kind }),
          ...(start && { since: start }),
          order: 'newest' as const,
        };
        const { items, truncated } = await collect<Evidence>(
          (paging) => session.call('audit-list', { query: { ...query, ...paging } }),
          limit,
        );
        items.reverse();
        const { out, err } = session.terminal;
        if (session.json) printJson(out, { items, truncated });
        else if (items.length === 0) printLines(out, ['No matching action or refusal is recorded.']);
        else printLines(out, timelineLines(sortByTime(items).map(withTarget), fitOf(out)));
        if (truncated && !session.json)
          printLines(err, [err.paint('warn', 'There are older entries. Raise --limit to see them.')]);
        return undefined;
      }),
    );

/** `slipway audit`: who did what, and who was refused what, in the order of time. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { namingTarget } from '../../render/evidence/audit.ts';
import { inOrderOfTime, timelineLines } from '../../render/evidence/evidence.ts';
import { limitOption, type Since, sinceOption, startOf } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

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
    .option('--code <code>', 'only what was refused by this error code')
    .option('--kind <kind>', 'only of this kind: action.done, action.refused, request.denied, request.served, …')
    .addOption(sinceOption())
    .addOption(limitOption(200))
    .examples('slipway audit --target node_… --since 2h', 'slipway audit --kind action.refused --actor ci')
    .action(
      cli.run<Options>(async (session, { target, actor, action, code, kind, since, limit }) => {
        const start = startOf(since, session.clock);
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
        else if (items.length === 0) printLines(out, ['Nothing that matches was done or refused.']);
        else printLines(out, timelineLines(inOrderOfTime(items).map(namingTarget), fitOf(out)));
        if (truncated && !session.json)
          printLines(err, [err.paint('warn', 'There is more, and older; raise --limit to see it.')]);
        return undefined;
      }),
    );

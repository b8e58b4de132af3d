/** `slipway verify-store`: whether every row is what its evidence makes of it, and every count what the rows say. */
import type { RowDifference, WrongCount } from '../../contract/finding.ts';
import { type MakeCommand, SlipwayCommand } from '../command.ts';
import { differenceColumns } from '../render/finding.ts';
import { renderTable } from '../render/table.ts';
import { fitOf, printJson, printLines } from '../terminal.ts';

const counted = (count: number, one: string, many: string) =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

function verdictOn(compared: number, untold: number, differing: number): string {
  const told = compared - untold;
  const besides = untold > 0 ? ` Of ${counted(untold, 'other', 'others')} no evidence is left.` : '';
  if (differing === 0)
    return told === 1
      ? `The one row there is, is what its evidence says.${besides}`
      : `All ${counted(told, 'row', 'rows')} are what their evidence says.${besides}`;
  return `${counted(differing, 'row', 'rows')} of ${told.toLocaleString('en')} did not come by the door.${besides}`;
}

const saysOf = ({ of, pool, status, counted, there_are }: WrongCount) =>
  `Counted are ${counted} ${of} ${status}${pool === null ? '' : ` in ${pool}`}, and there are ${there_are}; the server puts that right within the hour.`;

export const makeVerifyStore: MakeCommand = (cli) =>
  new SlipwayCommand('verify-store')
    .description(
      'Rebuild every node and allocation from its evidence, compare it with its row, and show what differs or is missing; then count them. Changes nothing; ends with 1 when a row or a count differs.',
    )
    .examples('slipway verify-store', 'slipway verify-store --json')
    .action(
      cli.run(async (session) => {
        const differing: RowDifference[] = [];
        const miscounted: WrongCount[] = [];
        let compared = 0;
        let untold = 0;
        for (let cursor: string | null = ''; cursor !== null; ) {
          const page: Awaited<ReturnType<typeof session.call<'store-verify'>>> = await session.call('store-verify', {
            query: cursor === '' ? {} : { cursor },
          });
          differing.push(...page.items);
          miscounted.push(...(page.miscounted ?? []));
          compared += page.compared;
          untold += page.untold;
          cursor = page.next_cursor;
        }
        const { out } = session.terminal;
        if (session.json) printJson(out, { compared, untold, differing, miscounted });
        else {
          if (differing.length > 0) printLines(out, [...renderTable(differenceColumns, differing, fitOf(out)), '']);
          printLines(out, [verdictOn(compared, untold, differing.length)]);
          if (differing.length > 0)
            printLines(out, [
              'Somebody wrote past the door. `slipway drift` has a finding for each row that differs within two passes: repair brings the row to its evidence, accept keeps it. What is missing, only a backup can bring back.',
            ]);
        }
        if (miscounted.length > 0 && !session.json) printLines(out, miscounted.map(saysOf));
        return differing.length + miscounted.length > 0 ? 'failed' : undefined;
      }),
    );

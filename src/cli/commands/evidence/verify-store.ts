/**
 * `slipway verify-store`: compares rows and counts with their evidence, and evidence with its
 * signed checkpoints.
 */
import { Option } from 'commander';
import type { RowDifference, UnretiredNode, WrongCount } from '../../../contract/supervision/finding.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { reportLines } from '../../render/evidence/evidence-report.ts';
import { differenceColumns } from '../../render/supervision/finding.ts';
import { renderTable } from '../../render/text/table.ts';
import { formatCount } from '../../render/text/text.ts';
import { appendValue, count } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines, type TerminalOutput } from '../../terminal/terminal.ts';
import { verifyEvidence } from './verify-evidence.ts';

function summaryOf(compared: number, withoutEvidence: number, differing: number): string {
  const checked = compared - withoutEvidence;
  const note = withoutEvidence > 0 ? ` ${formatCount(withoutEvidence, 'other row')} without evidence.` : '';
  const match = checked === 1 ? 'row matches its' : 'rows match their';
  if (differing === 0) return `${checked.toLocaleString('en')} ${match} evidence.${note}`;
  const differ = differing === 1 ? 'differs from its' : 'differ from their';
  return `${formatCount(differing, 'row')} of ${checked.toLocaleString('en')} ${differ} evidence.${note}`;
}

const countLine = ({ of, pool, status, counted, there_are }: WrongCount) =>
  `The count of ${of} ${status}${pool === null ? '' : ` in ${pool}`} is ${counted}, but there are ${there_are}. The server corrects it within one hour.`;

const unretiredLines = (nodes: UnretiredNode[]): string[] => [
  ...nodes.map(
    ({ node_id, pool, status, proof, proven_at, allocation_id }) =>
      `${node_id} in ${pool} is ${status}, but its machine was proven ${provenWords[proof]} at ${proven_at}${allocation_id ? ` (last held by ${allocation_id})` : ''}.`,
  ),
  'An earlier version left these nodes behind, and each takes a slot in its pool. The server retires them within two drift passes. If one remains, run `slipway drift`, then `slipway drift repair ID`.',
];

const provenWords: Record<UnretiredNode['proof'], string> = { absent: 'gone', revoked: 'cut off' };

interface Options {
  publicKey: string[];
  expectHead?: string;
  maxFaults: number;
}

/** Prints the progress as one line that is redrawn in place. Prints nothing into a pipe. */
function makeProgressLine({ interactive, write }: TerminalOutput): { show(rows: number): void; clear(): void } {
  return {
    show: (rows) => interactive && write(`\r${rows.toLocaleString('en')} evidence rows checked `),
    clear: () => interactive && write('\r\u001b[K'),
  };
}

export const makeVerifyStore: MakeCommand = (cli) =>
  new SlipwayCommand('verify-store')
    .description(
      'Compare rows with their evidence, and evidence with its signed checkpoints. Changes nothing. Exits with 1 if anything differs.',
    )
    .option('--public-key <file>', 'a public key (PEM or JSON) kept elsewhere; may be repeated', appendValue, [])
    .option('--expect-head <hash>', 'the head that an earlier run printed; it must still be in the chain')
    .addOption(
      new Option('--max-faults <n>', 'faults to list for each partition; the others are counted')
        .default(20)
        .argParser(count),
    )
    .examples(
      'slipway verify-store',
      'slipway verify-store --public-key slipway.pem --expect-head 4f1c…',
      'slipway verify-store --json',
    )
    .action(
      cli.run<Options>(async (session, { publicKey, expectHead, maxFaults }) => {
        const differing: RowDifference[] = [];
        const unretired: UnretiredNode[] = [];
        const miscounted: WrongCount[] = [];
        let compared = 0;
        let untold = 0;
        for (let cursor: string | null = ''; cursor !== null; ) {
          const page: Awaited<ReturnType<typeof session.call<'store-verify'>>> = await session.call('store-verify', {
            query: cursor === '' ? {} : { cursor },
          });
          differing.push(...page.items);
          unretired.push(...(page.unretired ?? []));
          miscounted.push(...(page.miscounted ?? []));
          compared += page.compared;
          untold += page.untold;
          cursor = page.next_cursor;
        }
        const { out } = session.terminal;
        const progress = makeProgressLine(
          session.json ? { ...session.terminal.err, interactive: false } : session.terminal.err,
        );
        const evidence = await verifyEvidence(session, {
          key_files: publicKey,
          ...(expectHead !== undefined && { expected_head: expectHead }),
          max_faults: maxFaults,
          onProgress: progress.show,
        }).finally(progress.clear);
        if (session.json) printJson(out, { compared, untold, differing, unretired, miscounted, evidence });
        else {
          if (differing.length > 0) printLines(out, [...renderTable(differenceColumns, differing, fitOf(out)), '']);
          printLines(out, [summaryOf(compared, untold, differing.length)]);
          if (differing.length > 0)
            printLines(out, [
              'These rows were changed outside a transition. Within two drift passes, `slipway drift` lists a finding for each row: `repair` restores the row from its evidence, and `accept` keeps the change. Only a backup restores missing rows.',
            ]);
        }
        if (unretired.length > 0 && !session.json) printLines(out, unretiredLines(unretired));
        if (miscounted.length > 0 && !session.json) printLines(out, miscounted.map(countLine));
        if (!session.json) printLines(out, reportLines(evidence));
        const hasFaults = evidence.faults.length > 0 || Object.keys(evidence.unlisted).length > 0;
        return hasFaults || differing.length + unretired.length + miscounted.length > 0 ? 'failed' : undefined;
      }),
    );

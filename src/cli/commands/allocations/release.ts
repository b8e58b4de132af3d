/** `slipway release`: gives an allocation back, or cancels one that is not active yet. */
import { randomUUID } from 'node:crypto';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { resolveAllocation } from '../../connection/resolve-id.ts';
import { hintLines } from '../../render/text/hints.ts';
import { timeoutWaitOption, waitOption } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';
import { emptySubject } from '../../wait/subject.ts';
import { waitUntilSettled } from '../../wait/wait.ts';

interface Options {
  reason?: string;
  wait?: boolean;
  timeoutWait?: number;
}

export const makeRelease: MakeCommand = (cli) =>
  new SlipwayCommand('release')
    .description('Give an allocation back. This cancels one that is not active yet, and retries a release that failed.')
    .argument('<id>', 'the id or name of an allocation, or of its node or one of its operations')
    .option('-r, --reason <text>', 'why; recorded as evidence under your name')
    .addOption(waitOption())
    .addOption(timeoutWaitOption())
    .examples('slipway release alloc_… --wait', 'slipway release alloc_… --reason "experiment over"')
    .action(
      cli.run<Options>(async (session, options, [word = '']) => {
        const id = await resolveAllocation(session, word);
        const reply = await session.call('allocation-release', {
          params: { id },
          ...(options.reason !== undefined && { body: { reason: options.reason } }),
          idempotency_key: randomUUID(),
        });
        const { allocation, operation } = reply;
        const { out } = session.terminal;
        if (!options.wait) {
          if (session.json) {
            printJson(out, reply);
            return;
          }
          printLines(out, [
            `${out.paint('good', '✔')} ${out.paint('strong', allocation.allocation_id)} is ${allocation.status}`,
            ...hintLines([['Follow it', session.commandLine('watch', allocation.allocation_id)]], out.paint),
          ]);
          return;
        }
        if (!session.json) printLines(out, [`${out.paint('strong', id)} in pool ${allocation.pool}`]);
        const { exit, subject } = await waitUntilSettled(session, {
          target: { kind: 'allocation', id },
          goal: 'release',
          known: { ...emptySubject, allocation, operation },
          timeout_seconds: options.timeoutWait ?? null,
        });
        if (session.json) printJson(out, { allocation: subject.allocation, operation: subject.operation });
        return exit;
      }),
    );

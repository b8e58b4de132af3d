/** `slipway allocate`: claims a machine of a pool. */
import { randomUUID } from 'node:crypto';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { hintLines } from '../../render/text/hints.ts';
import { duration, labels, timeoutWaitOption, waitOption } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';
import { emptySubject } from '../../wait/subject.ts';
import { waitUntilSettled } from '../../wait/wait.ts';

interface Options {
  pool: string;
  name?: string;
  label?: Record<string, string>;
  timeout?: number;
  wait?: boolean;
  timeoutWait?: number;
}

export const makeAllocate: MakeCommand = (cli) =>
  new SlipwayCommand('allocate')
    .description('Claim a machine of a pool.')
    .requiredOption('-p, --pool <pool>', 'the pool to claim a machine from')
    .option('-n, --name <name>', 'your name for the allocation')
    .option('-l, --label <key=value>', 'a label; may be repeated', labels)
    .option('-t, --timeout <time>', 'how long the machine may take to come up; the pool sets the maximum', duration)
    .addOption(waitOption())
    .addOption(timeoutWaitOption())
    .examples(
      'slipway allocate --pool local --wait',
      'slipway allocate --pool gpu --name trainer --label team=ml --timeout 20m',
    )
    .action(
      cli.run<Options>(async (session, options) => {
        const reply = await session.call('allocation-create', {
          body: {
            pool: options.pool,
            ...(options.name !== undefined && { name: options.name }),
            ...(options.label && { labels: options.label }),
            ...(options.timeout !== undefined && { provision_timeout_seconds: options.timeout }),
          },
          idempotency_key: randomUUID(),
        });
        const { allocation, operation } = reply;
        const { out } = session.terminal;
        const id = allocation.allocation_id;
        if (!options.wait) {
          if (session.json) {
            printJson(out, reply);
            return;
          }
          const hints: [string, string][] = [
            ['Follow it', session.commandLine('watch', id)],
            ['Give it back', session.commandLine('release', id)],
          ];
          printLines(out, [
            `${out.paint('good', '✔')} ${out.paint('strong', id)} is ${allocation.status} in pool ${allocation.pool}`,
            ...hintLines(hints, out.paint),
          ]);
          return;
        }
        if (!session.json) printLines(out, [`${out.paint('strong', id)} in pool ${allocation.pool}`]);
        const { exit, subject } = await waitUntilSettled(session, {
          target: { kind: 'allocation', id },
          goal: 'use',
          known: { ...emptySubject, allocation, operation },
          timeout_seconds: options.timeoutWait ?? null,
        });
        if (session.json) printJson(out, { allocation: subject.allocation, operation: subject.operation });
        return exit;
      }),
    );

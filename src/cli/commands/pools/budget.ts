/** `slipway budget`: sets how long a phase of a pool's boots may take. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import type { WhatIf } from '../../../contract/supervision/boots.ts';
import { formatSeconds, headlineOf } from '../../../lifecycle/boots/what-if-words.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import type { Session } from '../../connection/session.ts';
import { parseDuration } from '../../render/text/duration.ts';
import { hintLines } from '../../render/text/hints.ts';
import { wrap } from '../../render/text/text.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { type PhaseOption, phaseOption } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';

const policies = ['fixed', 'learned'] as const;

interface Options extends PhaseOption {
  policy?: (typeof policies)[number];
  reason: string;
}

const policyWords: Record<(typeof policies)[number], string> = {
  fixed: 'The budget stays until someone changes it.',
  learned: 'The budget stays for one day. Then recorded boots move it, by at most 25 % a day.',
};

function parseBudget(text: string): number {
  const seconds = parseDuration(text);
  if (seconds !== null && seconds > 0) return seconds;
  throw new CliFailure('usage', `${text} is not a valid budget`, { remedy: 'Give a time like 600, 90s or 10m.' });
}

const undoHint = ({ pool, phase, current }: WhatIf, commandLine: Session['commandLine']): [string, string] => [
  'Undo it',
  commandLine('budget', pool, String(current.budget_seconds), '--phase', phase, '--reason', '"…"'),
];

const keepHint = (pool: string, time: string, commandLine: Session['commandLine']): [string, string] => [
  'Keep it fixed',
  commandLine('budget', pool, time, '--policy', 'fixed', '--reason', '"…"'),
];

export const makeBudget: MakeCommand = (cli) =>
  new SlipwayCommand('budget')
    .description('Set how long a phase of the boots of a pool may take. See slipway what-if first.')
    .argument('<pool>', 'the pool')
    .argument('<time>', 'the budget, like 600 or 10m')
    .addOption(phaseOption('the phase; default provision'))
    .addOption(
      new Option('--policy <policy>', 'fixed: the budget stays; learned: recorded boots move it').choices(policies),
    )
    .requiredOption('-r, --reason <text>', 'why; recorded as evidence under your name')
    .examples(
      'slipway budget gpu 600 --reason "boots are faster with the new image"',
      'slipway budget gpu 10m --policy learned --reason "let boots find it"',
    )
    .action(
      cli.run<Options>(async (session, { phase = 'provision', policy, reason }, [pool = '', time = '']) => {
        const budget_seconds = parseBudget(time);
        // A typo like 10 for 10m would fail every boot, so the text warns about a harmful budget.
        const forecast = session.json
          ? null
          : await session.call('pool-what-if', { params: { pool }, body: { phase, budget_seconds } });
        const changed = await session.call('pool-budget', {
          params: { pool },
          body: { phase, budget_seconds, reason, ...(policy && { policy }) },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (!forecast) {
          printJson(out, changed);
          return;
        }
        const isHarmful = forecast.false_kill_count > forecast.current.false_kill_count;
        const forPhase = ['--phase', phase];
        const goal = phase === 'provision' ? 'register' : 'become ready';
        const currentPolicy = changed.budgets?.policy ?? 'fixed';
        printLines(out, [
          `${out.paint('good', '✔')} ${out.paint('strong', `Machines of ${pool} have ${formatSeconds(budget_seconds)} to ${goal}`)}, from the next boot on`,
          ...(phase === 'provision' ? [`  ${policyWords[currentPolicy]}`] : []),
          ...(isHarmful
            ? wrap(headlineOf(forecast), fitOf(out).width - 4).map(
                (line, i) => `  ${i === 0 ? out.paint('warn', '!') : ' '} ${line}`,
              )
            : []),
          ...hintLines(
            [
              ['See recorded boots', session.commandLine('boots', pool, ...forPhase)],
              ...(currentPolicy === 'learned' && phase === 'provision'
                ? [keepHint(pool, time, session.commandLine)]
                : []),
              ...(isHarmful ? [undoHint(forecast, session.commandLine)] : []),
            ],
            out.paint,
          ),
        ]);
        return undefined;
      }),
    );

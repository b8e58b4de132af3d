/** `slipway budget`: how long a phase of a pool's boots may take from now on, under the name of whoever says so. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import type { WhatIf } from '../../../contract/supervision/boots.ts';
import { headlineOf, inSeconds } from '../../../lifecycle/boots/what-if-words.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import type { Session } from '../../connection/session.ts';
import { hintLines } from '../../render/allocations/outcome.ts';
import { parseDuration } from '../../render/text/duration.ts';
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
  fixed: 'It stays until somebody changes it.',
  learned: 'A new number stands for a day; then boots move it, by at most 25 % a day.',
};

function secondsIn(text: string): number {
  const seconds = parseDuration(text);
  if (seconds !== null && seconds > 0) return seconds;
  throw new CliFailure('usage', `${text} is no budget`, { remedy: 'Give a time like 600, 90s or 10m.' });
}

const takenBack = ({ pool, phase, current }: WhatIf, commandLine: Session['commandLine']): [string, string] => [
  'Take it back',
  commandLine('budget', pool, String(current.budget_seconds), '--phase', phase, '--reason', '"…"'),
];

const keptThere = (pool: string, time: string, commandLine: Session['commandLine']): [string, string] => [
  'Keep it there',
  commandLine('budget', pool, time, '--policy', 'fixed', '--reason', '"…"'),
];

export const makeBudget: MakeCommand = (cli) =>
  new SlipwayCommand('budget')
    .description('Set how long a phase of the boots of a pool may take. See slipway what-if first.')
    .argument('<pool>', 'the pool')
    .argument('<time>', 'the budget, like 600 or 10m')
    .addOption(phaseOption('of this phase; without it, provision'))
    .addOption(
      new Option('--policy <policy>', 'fixed: it stays; learned: boots move it from there on').choices(policies),
    )
    .requiredOption('-r, --reason <text>', 'why; kept as evidence under your name')
    .examples(
      'slipway budget gpu 600 --reason "boots have been quick since the new image"',
      'slipway budget gpu 10m --policy learned --reason "let boots find it"',
    )
    .action(
      cli.run<Options>(async (session, { phase = 'provision', policy, reason }, [pool = '', time = '']) => {
        const budget_seconds = secondsIn(time);
        // 10 where 10m was meant gives up every machine from the next boot on: whoever set it must see that here.
        const foreseen = session.json
          ? null
          : await session.call('pool-what-if', { params: { pool }, body: { phase, budget_seconds } });
        const changed = await session.call('pool-budget', {
          params: { pool },
          body: { phase, budget_seconds, reason, ...(policy && { policy }) },
          idempotency_key: randomUUID(),
        });
        const { out } = session.terminal;
        if (!foreseen) {
          printJson(out, changed);
          return;
        }
        const isHarmful = foreseen.false_kill_count > foreseen.current.false_kill_count;
        const forPhase = ['--phase', phase];
        const does = phase === 'provision' ? 'register' : 'become ready';
        const standing = changed.budgets?.policy ?? 'fixed';
        printLines(out, [
          `${out.paint('good', '✔')} ${out.paint('strong', `Machines of ${pool} have ${inSeconds(budget_seconds)} to ${does}`)}, from the next boot on`,
          ...(phase === 'provision' ? [`  ${policyWords[standing]}`] : []),
          ...(isHarmful
            ? wrap(headlineOf(foreseen), fitOf(out).width - 4).map(
                (line, at) => `  ${at === 0 ? out.paint('warn', '!') : ' '} ${line}`,
              )
            : []),
          ...hintLines(
            [
              ['See how boots do with it', session.commandLine('boots', pool, ...forPhase)],
              ...(standing === 'learned' && phase === 'provision' ? [keptThere(pool, time, session.commandLine)] : []),
              ...(isHarmful ? [takenBack(foreseen, session.commandLine)] : []),
            ],
            out.paint,
          ),
        ]);
        return undefined;
      }),
    );

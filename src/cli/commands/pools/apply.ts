/** `slipway apply`: declares pools from files. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import { RequestRefused } from '../../../contract/client.ts';
import type { Pool } from '../../../contract/pool.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import type { Session } from '../../connection/session.ts';
import { repeated } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';
import { type DeclaredPool, readPoolDocuments, readText } from './pool-documents.ts';

interface Options {
  file: string[];
}

async function currentGeneration(session: Session, pool: string): Promise<number | null> {
  try {
    return (await session.call('pool-get', { params: { pool } })).generation;
  } catch (error) {
    if (error instanceof RequestRefused && error.problem.code === 'pool_not_found') return null;
    throw error;
  }
}

type Change = 'created' | 'changed' | 'unchanged';

const changeOf = (before: number | null, after: number): Change => {
  if (before === null) return 'created';
  return before === after ? 'unchanged' : 'changed';
};

async function declare(session: Session, { name, document }: DeclaredPool): Promise<{ change: Change; pool: Pool }> {
  const before = await currentGeneration(session, name);
  const pool = await session.call('pool-put', {
    params: { pool: name },
    body: document,
    idempotency_key: randomUUID(),
  });
  return { change: changeOf(before, pool.generation), pool };
}

export const makeApply: MakeCommand = (cli) =>
  new SlipwayCommand('apply')
    .description('Declare pools from YAML or JSON documents.')
    .addOption(
      new Option('-f, --file <file>', 'the documents, several separated by ---; - reads standard input')
        .argParser(repeated)
        .makeOptionMandatory(),
    )
    .examples('slipway apply -f pools.yaml', 'generate-pools | slipway apply -f -')
    .action(
      cli.run<Options>(async (session, { file }) => {
        // Reads every file first, so that an invalid last document sends nothing.
        const declared = file.flatMap((path) => readPoolDocuments(readText(path), path));
        const { out } = session.terminal;
        const applied: { change: Change; pool: Pool }[] = [];
        for (const pool of declared) {
          const one = await declare(session, pool);
          applied.push(one);
          const { name, generation } = one.pool;
          if (!session.json)
            printLines(out, [
              `${out.paint('good', '✔')} pool ${out.paint('strong', name)} ${one.change} (generation ${generation})`,
            ]);
        }
        if (session.json) printJson(out, { items: applied.map(({ change, pool }) => ({ ...pool, change })) });
        return undefined;
      }),
    );

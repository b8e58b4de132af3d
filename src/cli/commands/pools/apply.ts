/** `slipway apply`: declares pools from files. */
import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import { RequestRefused } from '../../../contract/client.ts';
import type { Pool } from '../../../contract/pool.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import type { Session } from '../../connection/session.ts';
import { appendValue } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';
import { type DeclaredPool, readPoolDocuments, readText } from './pool-documents.ts';

interface Options {
  file: string[];
}

async function fetchGeneration(session: Session, pool: string): Promise<number | null> {
  try {
    return (await session.call('pool-get', { params: { pool } })).generation;
  } catch (error) {
    if (error instanceof RequestRefused && error.problem.code === 'pool_not_found') return null;
    throw error;
  }
}

type Change = 'created' | 'changed' | 'unchanged';

const changeOf = (oldGeneration: number | null, newGeneration: number): Change => {
  if (oldGeneration === null) return 'created';
  return oldGeneration === newGeneration ? 'unchanged' : 'changed';
};

async function declarePool(
  session: Session,
  { name, document }: DeclaredPool,
): Promise<{ change: Change; pool: Pool }> {
  const oldGeneration = await fetchGeneration(session, name);
  const pool = await session.call('pool-put', {
    params: { pool: name },
    body: document,
    idempotency_key: randomUUID(),
  });
  return { change: changeOf(oldGeneration, pool.generation), pool };
}

export const makeApply: MakeCommand = (cli) =>
  new SlipwayCommand('apply')
    .description('Declare pools from YAML or JSON documents.')
    .addOption(
      new Option('-f, --file <file>', 'the documents, several separated by ---; - reads standard input')
        .argParser(appendValue)
        .makeOptionMandatory(),
    )
    .examples('slipway apply -f pools.yaml', 'generate-pools | slipway apply -f -')
    .action(
      cli.run<Options>(async (session, { file }) => {
        // Reads every file first, so that nothing is sent if any document is invalid.
        const pools = file.flatMap((path) => readPoolDocuments(readText(path), path));
        const { out } = session.terminal;
        const results: { change: Change; pool: Pool }[] = [];
        for (const pool of pools) {
          const result = await declarePool(session, pool);
          results.push(result);
          const { name, generation } = result.pool;
          if (!session.json)
            printLines(out, [
              `${out.paint('good', '✔')} pool ${out.paint('strong', name)} ${result.change} (generation ${generation})`,
            ]);
        }
        if (session.json) printJson(out, { items: results.map(({ change, pool }) => ({ ...pool, change })) });
        return undefined;
      }),
    );

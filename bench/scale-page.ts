/**
 * Records what the benchmarks of scale printed with `--json`, and writes docs/explanation/scale.md from all that is recorded. Without
 * `--from` the page is only written anew. Where one line may not be recorded, nothing is.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readOptions } from './harness/options.ts';
import { type Line, merge, readRecords, recordOf, refusalOf, writePage, writeRecords } from './page/scale-tables.ts';

const { from } = readOptions(import.meta.url, {
  takes: 'a moment',
  options: { from: { kind: 'path', what: 'directory with what benchmarks printed with --json, to be recorded first' } },
});
const figures = new URL('./page/scale.jsonl', import.meta.url);
const page = new URL('../docs/explanation/scale.md', import.meta.url);

/** A file may hold what else was printed; the figures are its lines that are JSON. */
const linesIn = (path: string): { path: string; line: Line }[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((text) => text.startsWith('{"benchmark"'))
    .map((text) => ({ path, line: JSON.parse(text) as Line }));

const fresh = from ? readdirSync(from).flatMap((name) => linesIn(join(from, name))) : [];
const refused = fresh.flatMap(({ path, line }) => {
  const refusal = refusalOf(line);
  return refusal ? [`${path}: ${line.benchmark} ${refusal}`] : [];
});
if (refused.length > 0) {
  process.stderr.write(`${refused.join('\n')}\nNothing was recorded.\n`);
  process.exit(1);
}
const before = readRecords(readFileSync(figures, 'utf8'));
const records = merge(
  before,
  fresh.map(({ line }) => recordOf(line)),
);
writeFileSync(figures, writeRecords(records));
writeFileSync(page, writePage(records));

/**
 * Records the `--json` output of benchmarks and writes docs/explanation/scale.md from all records.
 * Without `--from` it only rewrites the page. If one line cannot be recorded, none is.
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

/** The file may hold other output; the figures are its JSON lines. */
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

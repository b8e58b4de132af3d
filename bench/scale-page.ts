/**
 * Records the `--json` output of benchmarks and writes docs/explanation/scale.md from all records.
 * Without `--from` the program only rewrites the page. If one line of the output cannot be
 * recorded, no line is recorded.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readOptions } from './harness/options.ts';
import {
  type Line,
  merge,
  readRecords,
  recordingRefusal,
  recordOf,
  writePage,
  writeRecords,
} from './page/scale-tables.ts';

const { from } = readOptions(import.meta.url, {
  duration: 'a moment',
  options: { from: { kind: 'path', description: 'directory with the --json output of benchmarks to record' } },
});
const figures = new URL('./page/scale.jsonl', import.meta.url);
const page = new URL('../docs/explanation/scale.md', import.meta.url);

/** A file may also hold other output; only its JSON lines are read. */
const linesIn = (path: string): { path: string; line: Line }[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((text) => text.startsWith('{"benchmark"'))
    .map((text) => ({ path, line: JSON.parse(text) as Line }));

const newLines = from ? readdirSync(from).flatMap((name) => linesIn(join(from, name))) : [];
const refusals = newLines.flatMap(({ path, line }) => {
  const refusal = recordingRefusal(line);
  return refusal ? [`${path}: ${line.benchmark} ${refusal}`] : [];
});
if (refusals.length > 0) {
  process.stderr.write(`${refusals.join('\n')}\nNothing was recorded.\n`);
  process.exit(1);
}
const before = readRecords(readFileSync(figures, 'utf8'));
const records = merge(
  before,
  newLines.map(({ line }) => recordOf(line)),
);
writeFileSync(figures, writeRecords(records));
writeFileSync(page, writePage(records));

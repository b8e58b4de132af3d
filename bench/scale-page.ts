/**
 * Records what the benchmarks of scale printed with `--json`, and writes docs/scale.md from all that is recorded. Without
 * `--from` the page is only written anew.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { arch, cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { readOptions } from './options.ts';
import { merge, type Recorded, readRecords, type Scale, writePage, writeRecords } from './scale-tables.ts';

const { from } = readOptions(import.meta.url, {
  takes: 'a moment',
  options: { from: { kind: 'path', what: 'directory with what benchmarks printed with --json, to be recorded first' } },
});
const figures = new URL('./scale.jsonl', import.meta.url);
const page = new URL('../docs/scale.md', import.meta.url);

function readScale(): Scale | undefined {
  try {
    return readRecords(readFileSync(figures, 'utf8'));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A file may hold what else was printed; the figures are its lines that are JSON. */
const recordedIn = (text: string): Recorded[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{"benchmark"'))
    .map((line) => {
      const { benchmark, load, figures: found, notes = [] } = JSON.parse(line) as Recorded;
      const kept = found.map((figure) => ({
        ...figure,
        samples: undefined,
        value: Number(figure.value.toPrecision(4)),
      }));
      return { benchmark, load: { before: load.before, after: load.after }, figures: kept, notes };
    });

const fresh = from ? readdirSync(from).flatMap((name) => recordedIn(readFileSync(join(from, name), 'utf8'))) : [];
const machine = { cores: cpus().length, memory_gb: Math.round(totalmem() / 2 ** 30), architecture: arch() };
const before = readScale();
const scale = merge(before, fresh.length > 0 || !before ? machine : before.machine, fresh);
writeFileSync(figures, writeRecords(scale));
writeFileSync(page, writePage(scale));

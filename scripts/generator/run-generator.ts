/**
 * The command line of the generators. Without options a generator writes its files; with `--check`
 * it writes nothing and names the files that differ.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';

const root = join(import.meta.dirname, '../..');

/** Maps each path from the repository root to its content. */
type GeneratedFiles = Record<string, () => string | Promise<string>>;

const usage = (name: string, paths: string[]) => `Usage: bin/run ${name} [--check]

Writes ${paths.join(', ')}.

  --check  write nothing; fail if a file is not up to date
  --help   print this help and exit
`;

const currentText = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
};

export async function runGenerator(files: GeneratedFiles): Promise<void> {
  const { values } = parseArgs({ options: { check: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } });
  const name = relative(root, process.argv[1] ?? '');
  if (values.help) {
    process.stdout.write(usage(name, Object.keys(files)));
    return;
  }
  for (const [file, render] of Object.entries(files)) {
    const path = join(root, file);
    const text = await render();
    const isCurrent = currentText(path) === text;
    if (values.check && !isCurrent) {
      console.error(`${file} is not up to date: run bin/run ${name}`);
      process.exitCode = 1;
    } else if (!isCurrent) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
      console.log(`wrote ${file}`);
    }
  }
}

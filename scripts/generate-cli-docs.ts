/** Writes docs/cli.md from the command line's own declarations: `node scripts/generate-cli-docs.ts`. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createProgram } from '../src/cli/program.ts';
import { referenceDocument } from '../src/cli/render/reference.ts';
import { silentCli } from '../src/cli/silent-cli.ts';

const target = join(import.meta.dirname, '../docs/cli.md');
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, referenceDocument(createProgram(silentCli, '')));
console.log(`wrote ${target}`);

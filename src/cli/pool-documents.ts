/** Reads pool documents from text. Checks only what it needs to address them; the server knows what a pool may say. */
import { parseAllDocuments } from 'yaml';
import type { PoolDocument } from '../contract/pool.ts';
import { CliFailure } from './failure.ts';

export interface DeclaredPool {
  name: string;
  document: PoolDocument;
}

const isMapping = (value: unknown): value is PoolDocument & { name?: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** JSON is YAML, so one reader does for both; documents without content (a leading `---`) are passed over. */
export function readPoolDocuments(text: string, path: string): DeclaredPool[] {
  const wrong = (what: string, why?: string) =>
    new CliFailure('usage', `${path}: ${what}`, {
      ...(why && { why }),
      remedy: 'Each document declares one pool and needs at least `name` and `driver`. Nothing was sent.',
    });
  const parsed = parseAllDocuments(text);
  if (!Array.isArray(parsed)) throw wrong('there is no pool document in it');
  const declared: DeclaredPool[] = [];
  for (const [i, source] of parsed.entries()) {
    const [mistake] = source.errors;
    if (mistake) throw wrong(`document ${i + 1} is not valid YAML or JSON`, mistake.message);
    const value: unknown = source.toJS();
    if (value === null) continue;
    if (!isMapping(value)) throw wrong(`document ${i + 1} is not a pool`, 'Expected fields, like `name: gpu`.');
    const { name } = value;
    if (typeof name !== 'string' || name === '') throw wrong(`document ${i + 1} has no name`);
    declared.push({ name, document: value });
  }
  if (declared.length === 0) throw wrong('there is no pool document in it');
  return declared;
}

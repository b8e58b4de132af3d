/** Reads pool documents from text. Checks only what it needs to address them; the server knows what a pool may say. */
import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import type { PoolDocument, ProposedPool } from '../../../contract/pool.ts';
import { CliFailure } from '../../terminal/failure.ts';

export interface DeclaredPool {
  name: string;
  document: PoolDocument;
}

const standardInput = 0;

export function readText(path: string): string {
  try {
    return readFileSync(path === '-' ? standardInput : path, 'utf8');
  } catch (error) {
    throw new CliFailure('usage', `The file ${path} cannot be read`, {
      why: error instanceof Error ? error.message : String(error),
      remedy: 'Name a file that is there and that you may read, or - for standard input. Nothing was sent.',
      cause: error,
    });
  }
}

type Mapping = Record<string, unknown>;

const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

type Wrong = (what: string, why?: string) => CliFailure;

/** JSON is YAML, so one reader does for both; documents without content (a leading `---`) are passed over. */
function readMappings(text: string, wrong: Wrong): { value: Mapping; place: number }[] {
  const parsed = parseAllDocuments(text);
  if (!Array.isArray(parsed)) throw wrong('there is no pool document in it');
  const found: { value: Mapping; place: number }[] = [];
  for (const [i, source] of parsed.entries()) {
    const [mistake] = source.errors;
    if (mistake) throw wrong(`document ${i + 1} is not valid YAML or JSON`, mistake.message);
    const value: unknown = source.toJS();
    if (value === null) continue;
    if (!isMapping(value)) throw wrong(`document ${i + 1} is not a pool`, 'Expected fields, like `name: gpu`.');
    found.push({ value, place: i + 1 });
  }
  if (found.length === 0) throw wrong('there is no pool document in it');
  return found;
}

const wrongIn =
  (path: string, remedy: string): Wrong =>
  (what, why) =>
    new CliFailure('usage', `${path}: ${what}`, { ...(why && { why }), remedy });

export function readPoolDocuments(text: string, path: string): DeclaredPool[] {
  const wrong = wrongIn(
    path,
    'Each document declares one pool and needs at least `name` and `driver`. Nothing was sent.',
  );
  return readMappings(text, wrong).map(({ value, place }) => {
    const { name } = value;
    if (typeof name !== 'string' || name === '') throw wrong(`document ${place} has no name`);
    return { name, document: value as PoolDocument };
  });
}

/** Documents that are only thought of: each may leave out what it does not change. */
export const readProposedPools = (text: string, path: string): ProposedPool[] =>
  readMappings(
    text,
    wrongIn(path, 'Each document says what a pool would be, like `name: gpu` and its `budgets`. Nothing was sent.'),
  ).map(({ value }) => value as ProposedPool);

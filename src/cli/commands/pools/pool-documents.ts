/**
 * Reads pool documents from YAML or JSON. Checks only the name; the server validates the other
 * fields.
 */
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
    throw new CliFailure('usage', `Cannot read the file ${path}`, {
      why: error instanceof Error ? error.message : String(error),
      remedy: 'Name a file that exists and that you may read, or - for standard input. Nothing was sent.',
      cause: error,
    });
  }
}

type Mapping = Record<string, unknown>;

const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

type MakeError = (message: string, why?: string) => CliFailure;

/**
 * Reads JSON too, because JSON is valid YAML. Skips empty documents, like one before a leading
 * `---`.
 */
function readMappings(text: string, invalid: MakeError): { value: Mapping; position: number }[] {
  const parsed = parseAllDocuments(text);
  if (!Array.isArray(parsed)) throw invalid('it holds no pool document');
  const mappings: { value: Mapping; position: number }[] = [];
  for (const [i, source] of parsed.entries()) {
    const [error] = source.errors;
    if (error) throw invalid(`document ${i + 1} is not valid YAML or JSON`, error.message);
    const value: unknown = source.toJS();
    if (value === null) continue;
    if (!isMapping(value)) throw invalid(`document ${i + 1} is not a pool`, 'Expected fields, like `name: gpu`.');
    mappings.push({ value, position: i + 1 });
  }
  if (mappings.length === 0) throw invalid('it holds no pool document');
  return mappings;
}

const invalidFile =
  (path: string, remedy: string): MakeError =>
  (message, why) =>
    new CliFailure('usage', `${path}: ${message}`, { ...(why && { why }), remedy });

export function readPoolDocuments(text: string, path: string): DeclaredPool[] {
  const invalid = invalidFile(
    path,
    'Each document declares one pool and needs at least `name` and `driver`. Nothing was sent.',
  );
  return readMappings(text, invalid).map(({ value, position }) => {
    const { name } = value;
    if (typeof name !== 'string' || name === '') throw invalid(`document ${position} has no name`);
    return { name, document: value as PoolDocument };
  });
}

/** Proposed pools may leave out the fields that they do not change. */
export const readProposedPools = (text: string, path: string): ProposedPool[] =>
  readMappings(
    text,
    invalidFile(path, 'Each document describes a proposed pool, like `name: gpu` and its `budgets`. Nothing was sent.'),
  ).map(({ value }) => value as ProposedPool);

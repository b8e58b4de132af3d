/**
 * The repository as the tidy rules see it: files with their text, and a syntax tree for code. Rules
 * never read the disk.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { parseSync } from 'rolldown/utils';

export interface SourceFile {
  /** From the root of the repository, with forward slashes. */
  path: string;
  text: string;
}

export interface Violation {
  path: string;
  what: string;
}

export interface Rule {
  name: string;
  check(files: SourceFile[]): Violation[];
  /** Sets of files. The rule must find a violation in each, which shows that it works. */
  broken: SourceFile[][];
  /** Similar files in which the rule must find no violation. */
  fine: SourceFile[];
}

export const file = (path: string, text: string): SourceFile => ({ path, text });

/** Makes a rule that checks one file at a time from a function that returns its violations. */
export const eachFile =
  (applies: (path: string) => boolean, wrong: (file: SourceFile) => string[]) =>
  (files: SourceFile[]): Violation[] =>
    files.filter(({ path }) => applies(path)).flatMap((file) => wrong(file).map((what) => ({ path: file.path, what })));

export const isCode = (path: string) => /\.(ts|tsx|mjs)$/.test(path) && !path.endsWith('.d.mts');
export const isTest = (path: string) => /\.test\.tsx?$/.test(path) || /^(test|bench)\//.test(path);
export const isGenerated = (path: string) => path.includes('.generated.');
/** Code that runs in production, on the server or in the browser. */
export const isProduct = (path: string) => isCode(path) && /^(src|console\/src)\//.test(path) && !isTest(path);
export const isServerProduct = (path: string) => isProduct(path) && path.startsWith('src/');

export interface SyntaxNode {
  type: string;
  start: number;
  end: number;
  [key: string]: unknown;
}

const isNode = (value: unknown): value is SyntaxNode =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

interface Parsed {
  nodes: SyntaxNode[];
  comments: string[];
}

const parsedFiles = new WeakMap<SourceFile, Parsed>();

export function parse(source: SourceFile): Parsed {
  const knownParse = parsedFiles.get(source);
  if (knownParse) return knownParse;
  const result = parseSync(source.path, source.text);
  if (result.errors.length > 0) throw new Error(`${source.path} does not parse: ${result.errors[0]?.message}`);
  const nodes: SyntaxNode[] = [];
  collect(result.program, nodes);
  const newParse = { nodes, comments: result.comments.map(({ value }) => value) };
  parsedFiles.set(source, newParse);
  return newParse;
}

function collect(value: unknown, into: SyntaxNode[]): void {
  if (Array.isArray(value)) for (const item of value) collect(item, into);
  else if (isNode(value)) {
    into.push(value);
    for (const child of Object.values(value)) if (typeof child === 'object' && child !== null) collect(child, into);
  }
}

export const nodesOf = (source: SourceFile, ...types: string[]): SyntaxNode[] =>
  parse(source).nodes.filter(({ type }) => types.includes(type));

/** The child node under this key, if there is one. */
export function child(node: SyntaxNode | undefined, key: string): SyntaxNode | undefined {
  const value = node?.[key];
  return isNode(value) ? value : undefined;
}

export const textOf = (source: SourceFile, node: SyntaxNode): string => source.text.slice(node.start, node.end);

/** Every string in the code; each placeholder of a template becomes `?`. */
export function stringsOf(source: SourceFile): string[] {
  const literals = nodesOf(source, 'Literal').flatMap(({ value }) => (typeof value === 'string' ? [value] : []));
  const templates = nodesOf(source, 'TemplateLiteral').map((node) => {
    const parts = Array.isArray(node.quasis) ? node.quasis.filter(isNode) : [];
    return parts.map((part) => textOf(source, part).replace(/^[`}]|(\$\{|`)$/g, '')).join('?');
  });
  return [...literals, ...templates];
}

export interface Import {
  /** A path from the root for files of this repository, otherwise the package's name as written. */
  target: string;
  own: boolean;
  typeOnly: boolean;
}

const importers = [
  'ImportDeclaration',
  'ExportNamedDeclaration',
  'ExportAllDeclaration',
  'ImportExpression',
  'TSImportType',
];

/**
 * All imports, including files named by `new URL('./x.ts', import.meta.url)`, because those are
 * run.
 */
export function importsOf(source: SourceFile): Import[] {
  const imports = nodesOf(source, ...importers).flatMap((node) => {
    const name = child(node, 'source')?.value;
    const typeOnly = node.type === 'TSImportType' || node.importKind === 'type' || node.exportKind === 'type';
    return typeof name === 'string' ? [{ name, typeOnly }] : [];
  });
  const urlImports = nodesOf(source, 'NewExpression')
    .filter((node) => child(node, 'callee')?.name === 'URL' && textOf(source, node).includes('import.meta.url'))
    .flatMap((node) => {
      const first: unknown = Array.isArray(node.arguments) ? node.arguments[0] : undefined;
      const name = isNode(first) ? first.value : undefined;
      return typeof name === 'string' && isCode(name) ? [{ name, typeOnly: false }] : [];
    });
  return [...imports, ...urlImports].map(({ name, typeOnly }) =>
    name.startsWith('.')
      ? { target: posix.normalize(posix.join(posix.dirname(source.path), name)), own: true, typeOnly }
      : { target: name, own: false, typeOnly },
  );
}

const leftOut = new Set(['node_modules', 'dist', '.git', '.slipway', 'coverage', 'reports']);
const isText = (name: string) => !/\.(png|jpg|jpeg|gif|ico|woff2?|svg|log)$/.test(name);

export function readTree(root: string, below = ''): SourceFile[] {
  return readdirSync(join(root, below), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(below, entry.name);
    if (leftOut.has(entry.name)) return [];
    if (entry.isDirectory()) return readTree(root, path);
    return entry.isFile() && isText(entry.name) ? [file(path, readFileSync(join(root, path), 'utf8'))] : [];
  });
}

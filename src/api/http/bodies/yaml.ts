/**
 * Reads YAML in time linear in the length of the text. The library checks duplicate keys and
 * formats errors in quadratic time, so both are switched off and this file refuses duplicate keys.
 * Limits on tokens, depth and aliases are checked before parsing, to bound the cost of the parser.
 */
import { isScalar, Lexer, parseDocument, visit } from 'yaml';
import { ApiProblem } from '../../../contract/errors/errors.ts';

/** A larger document can be sent as JSON. */
export const maxYamlBytes = 32 * 1024;
const maxTokens = 8_000;
const maxDepth = 64;
const maxAliases = 50;

/** The lexer emits this token before a scalar; the next token is the text of the scalar. */
const scalarMark = '\u001f';

const invalidYamlProblem = (reason: string) =>
  new ApiProblem('malformed_json', `The body is not valid YAML: ${reason}`);

/** Refuses texts on which the parser would spend too much time or stack. */
function checkTokens(text: string): void {
  let tokens = 0;
  let aliases = 0;
  let brackets = 0;
  let indicatorsOnLine = 0;
  let isText = false;
  for (const token of new Lexer().lex(text)) {
    if (++tokens > maxTokens) throw invalidYamlProblem(`it has more than ${maxTokens} tokens; send JSON instead.`);
    const [first] = token;
    if (isText) isText = false;
    else if (token === scalarMark) isText = true;
    else if (first === '*' && ++aliases > maxAliases)
      throw invalidYamlProblem(`it has more than ${maxAliases} aliases.`);
    else if (first === '[' || first === '{') brackets++;
    else if (first === ']' || first === '}') brackets = Math.max(0, brackets - 1);
    else if (first === '-' || first === '?') indicatorsOnLine++;
    else if (first === '\n' || first === '\r') indicatorsOnLine = 0;
    if (brackets + indicatorsOnLine > maxDepth)
      throw invalidYamlProblem(`it is nested deeper than ${maxDepth} levels.`);
  }
}

/**
 * The library creates an error for each mistake. Without stack traces, a text full of mistakes
 * costs a fifth of the time.
 */
export function parseWithoutStacks(text: string) {
  const stackTraceLimit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return parseDocument(text, { uniqueKeys: false, prettyErrors: false, logLevel: 'error' });
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;

export function readYaml(text: string): unknown {
  if (Buffer.byteLength(text) > maxYamlBytes)
    throw new ApiProblem(
      'body_too_large',
      `YAML may have at most ${maxYamlBytes} bytes; send a larger document as JSON.`,
    );
  checkTokens(text);
  const document = parseWithoutStacks(text);
  const [error] = document.errors;
  if (error) throw invalidYamlProblem(`line ${lineAt(text, error.pos[0])}: ${error.message}.`);
  visit(document, {
    Map(_, { items }) {
      const keys = new Set<string>();
      for (const { key } of items) {
        if (!isScalar(key)) throw invalidYamlProblem('a key must be a plain value.');
        const name = String(key.value);
        if (keys.has(name)) throw invalidYamlProblem(`the key ${name.slice(0, 64)} occurs twice in one mapping.`);
        keys.add(name);
      }
    },
  });
  try {
    return document.toJS({ maxAliasCount: maxAliases });
  } catch (error) {
    throw invalidYamlProblem(error instanceof Error ? `${error.message}.` : '');
  }
}

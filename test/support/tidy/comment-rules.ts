/** Rules about the wording of comments, and about vague names. */
import { eachFile, file, isCode, isGenerated, nodesOf, parse, type Rule, type SourceFile } from './source.ts';

/** Exempt from all rules of this file, because they use `meant`, a field of the wire contract. */
const exempt = [
  'src/api/routes/find.ts',
  'src/contract/fleet/find.ts',
  'src/cli/connection/resolve-id.ts',
  'src/cli/connection/resolve-id.test.ts',
  'src/cli/testing/scripted-server.ts',
  'console/src/features/find/FindPage.tsx',
  'test/api/evidence/find.test.ts',
];

const applies = (path: string) => isCode(path) && !isGenerated(path) && !exempt.includes(path);

const maxColumns = 100;
const startsComment = /^\s*(?:\/\*|\*|\/\/)/;

const narrowComments: Rule = {
  name: 'comments are wrapped at 100 columns',
  check: eachFile(applies, ({ text }) =>
    text
      .split('\n')
      .flatMap((line, index) =>
        startsComment.test(line) && line.length > maxColumns ? [`line ${index + 1} has ${line.length} columns`] : [],
      ),
  ),
  broken: [[file('scripts/test/a.ts', `// ${'word '.repeat(20)}\n`)]],
  fine: [file('scripts/test/a.ts', `// ${'word '.repeat(19)}\nconst a = '${'word '.repeat(30)}';\n`)],
};

/** A sentence that begins with one of these words hides who does what. */
const riddles = /(?:^|[.!?:]\s+)(whoever|whomever|whose|who|what|that which|nobody|let no)\b/gi;

const sentencesOf = (comment: string) =>
  comment
    .replace(/^\s*\*+/gm, ' ')
    .replace(/\s+/g, ' ')
    .trim();

const plainSentences: Rule = {
  name: 'no sentence of a comment starts with whoever, whose, who, what, nobody',
  check: eachFile(applies, (source) =>
    parse(source).comments.flatMap((comment) =>
      [...sentencesOf(comment).matchAll(riddles)].map(({ index }) => {
        const words = sentencesOf(comment)
          .slice(index)
          .replace(/^[.!?:]\s+/, '')
          .split(' ')
          .slice(0, 6);
        return `says "${words.join(' ')} …"`;
      }),
    ),
  ),
  broken: ['/** Whoever asks is answered. */', '// It waits. Nobody else does.', '/**\n * What it\n * holds.\n */'].map(
    (text) => [file('scripts/test/a.ts', text)],
  ),
  fine: [file('scripts/test/a.ts', '// The caller decides what to do and who does it.\n/** Whatever: a word. */')],
};

const vagueNames = new Set(['told', 'asked', 'meant', 'such', 'asker', 'sift', 'steadily', 'gathered', 'byHalves']);
const isMost = /^most[A-Z]/;

const namesIn = (source: SourceFile): string[] =>
  nodesOf(source, 'Identifier').flatMap(({ name }) => (typeof name === 'string' ? [name] : []));

const plainNames: Rule = {
  name: 'names are the words of the glossary',
  check: eachFile(applies, (source) =>
    [...new Set(namesIn(source))].flatMap((name) => {
      if (vagueNames.has(name)) return [`uses the name ${name}`];
      return isMost.test(name) ? [`uses the name ${name}, which is max${name.slice('most'.length)}`] : [];
    }),
  ),
  broken: ['const told = 1;', 'const f = (asked: string) => asked;', 'const mostRows = 5;'].map((text) => [
    file('scripts/test/a.ts', text),
  ]),
  fine: [file('scripts/test/a.ts', "const maxRows = 5; const said = 'told';")],
};

export const commentRules: Rule[] = [narrowComments, plainSentences, plainNames];

/** Rules about the pages of the documentation: short paragraphs, plain words and valid links. */
import { posix } from 'node:path';
import { eachFile, file, type Rule, type SourceFile } from './source.ts';

/** Generated from texts in the code, so a violation would have to be fixed there. */
const generatedPages = ['docs/glossary.md', 'docs/reference/api.md', 'docs/reference/cli.md'];

const isPage = (path: string) =>
  !generatedPages.includes(path) &&
  (/^(README|ARCHITECTURE|CONTRIBUTING|AGENTS)\.md$/.test(path) ||
    (path.startsWith('docs/') && path.endsWith('.md')) ||
    /^(src|console\/src|bench|scripts)\/(.*\/)?README\.md$/.test(path));

interface Block {
  line: number;
  text: string;
}

const startsBlock = /^\s*(?:[-*]\s|\d+\.\s|\||#|>|<)/;
const endsBlock = /^\s*(?:\||#)/;

/** Paragraphs, list items, headings and table cells, without code, comments and generated parts. */
function blocksOf(page: string): Block[] {
  const blank = (part: string) => part.replace(/[^\n]/g, '');
  const text = page
    .replace(/^([ \t]*)```[\s\S]*?^\1```/gm, blank)
    .replace(/<!-- generated: [\s\S]*?<!-- end -->/g, blank)
    .replace(/<!--[\s\S]*?-->/g, blank);
  const blocks: Block[] = [];
  let isOpen = false;
  for (const [index, line] of text.split('\n').entries()) {
    const last = blocks.at(-1);
    if (line.trim() === '') isOpen = false;
    else if (isOpen && last && !startsBlock.test(line)) last.text += ` ${line.trim()}`;
    else {
      const cells = line.trim().startsWith('|') ? line.trim().split('|').slice(1, -1) : [line];
      blocks.push(...cells.map((cell) => ({ line: index + 1, text: cell.trim() })));
      isOpen = !endsBlock.test(line);
    }
  }
  return blocks.map(({ line, text: written }) => ({ line, text: prose(written) }));
}

/** The words that a reader reads: no code, no targets of links, no marks. */
const prose = (written: string): string =>
  written
    .replace(/`[^`]*`/g, 'code')
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/^(?:[-*]|\d+\.|#+|>)\s+/, '')
    .replace(/[*_[\]!]/g, '')
    .trim();

const maxWords = 60;
const wordsIn = (text: string) => text.split(/\s+/).filter((word) => /\w/.test(word)).length;

const shortParagraphs: Rule = {
  name: `no paragraph of a page has more than ${maxWords} words`,
  check: eachFile(isPage, ({ text }) =>
    blocksOf(text)
      .filter((block) => wordsIn(block.text) > maxWords)
      .map((block) => `line ${block.line} begins a paragraph of ${wordsIn(block.text)} words`),
  ),
  broken: [
    [file('docs/a.md', `${'word '.repeat(maxWords + 1)}\n`)],
    [file('README.md', `# A\n\n- ${'word '.repeat(40)}\n  ${'word '.repeat(21)}\n`)],
    [file('src/store/README.md', `| a | ${'word '.repeat(maxWords + 1)} |\n`)],
  ],
  fine: [
    file('docs/a.md', `${'word '.repeat(maxWords)}\n\n${'word '.repeat(maxWords)}\n- ${'word '.repeat(maxWords)}\n`),
    file('docs/b.md', `\`\`\`sh\n${'word '.repeat(99)}\n\`\`\`\n\n| ${'word '.repeat(40)} | ${'word '.repeat(40)} |\n`),
    file('docs/c.md', `<!-- generated: x -->\n${'word '.repeat(99)}\n<!-- end -->\n`),
    file('docs/reference/cli.md', 'word '.repeat(99)),
    file('test/README.md', 'word '.repeat(99)),
  ],
};

/** A sentence that begins with one of these words hides who does what. */
const riddle = /(?:^|[.!?:]\s+)(?:whoever|whomever|whose|who|what(?!-if)|that which|nobody|let no)\b[^.!?:]*/gi;

/** A block that is one question, such as a cell of a table, is no riddle. */
const isQuestion = (text: string) => /^[^.]*\?$/.test(text.trim());

const plainSentences: Rule = {
  name: 'no sentence of a page starts with whoever, whose, who, what, nobody',
  check: eachFile(isPage, ({ text }) =>
    blocksOf(text)
      .filter((block) => !isQuestion(block.text))
      .flatMap((block) =>
        [...block.text.matchAll(riddle)].map(([found]) => `line ${block.line} says "${found.trim()}"`),
      ),
  ),
  broken: [
    'Whoever asks is answered.',
    '## What it does',
    'It waits. Nobody else does.',
    '- **What happens.** It waits.',
    '| What a thing | a |',
    'One thing: what it\nholds.',
  ].map((text) => [file('docs/a.md', `${text}\n`)]),
  fine: [
    file('docs/a.md', 'The caller decides what to do and who does it. Whatever: a word. What-if counts.\n'),
    file('docs/b.md', '`x`. `what`: a label. See [it](what.md).\n\n| who may release a machine? |\n'),
  ],
};

/** Words of the former dialect, with the words of the glossary that replace them. */
const formerWords: [RegExp, string][] = [
  [/\b(?:the|one|front|a) doors?\b/gi, 'transition or protocol'],
  [/\bsift(?:s|ed|ing)?\b/gi, 'apply the brake'],
  [/\b(?:struck|strikes?|striking) out\b/gi, 'redact'],
  [/\btam(?:e|es|ed|ing)\b/gi, 'redact'],
  [/\bsteadily\b/gi, 'retry while unavailable'],
  [/\bgather(?:ed|er|ers)\b/gi, 'batch'],
  [/\bby halves\b/gi, 'bisect'],
  [/\baskers?\b/gi, 'caller'],
  [/\b(?:tell|tells|told|telling)\b/gi, 'report, record, send or notify'],
  [/\bobserved pools?\b/gi, 'observe-only pool'],
  [/\bobserved (?:machines?|nodes?)\b/gi, 'agentless machine'],
];

const plainWords: Rule = {
  name: 'pages use the words of the glossary',
  check: eachFile(isPage, ({ text }) =>
    blocksOf(text).flatMap((block) =>
      formerWords.flatMap(([former, now]) =>
        [...block.text.matchAll(former)].map(([found]) => `line ${block.line} says "${found}"; write ${now}`),
      ),
    ),
  ),
  broken: [
    'Each change goes through the door.',
    'Secrets are struck out.',
    'Agents are told to wait.',
    'Beats are gathered\nfor 0.1 s.',
    '| the asker | waits |',
    'An observed pool decides nothing.',
  ].map((text) => [file('docs/a.md', `${text}\n`)]),
  fine: [
    file('docs/a.md', 'It runs next door, observed by `allocation.told`. A strike is no word of ours.\n'),
    file('docs/b.md', '```\nsecrets are struck out\n```\n'),
    file('docs/glossary.md', '| transition | door, the one door |\n'),
  ],
};

/** The name of a heading in an address, as GitHub makes it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/\]\([^)]*\)/g, '')
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-');

const anchorsOf = ({ text }: SourceFile): string[] =>
  [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading));

const headingsExist: Rule = {
  name: 'pages link to headings that exist',
  check: (files) => {
    const pages = new Map(files.map((each) => [each.path, each]));
    return eachFile(
      (path) => path.endsWith('.md'),
      ({ path, text }) =>
        [...text.matchAll(/\]\(([^)#\s]*)#([^)\s]+)\)/g)].flatMap(([, target = '', anchor = '']) => {
          if (/^[a-z]+:/.test(target)) return [];
          const page = pages.get(target === '' ? path : posix.join(posix.dirname(path), target));
          return !page || anchorsOf(page).includes(anchor)
            ? []
            : [`links to ${target}#${anchor}, which has no heading`];
        }),
    )(files);
  },
  broken: [
    [file('docs/a.md', '# One\n\nSee [two](#two).\n')],
    [file('docs/a.md', 'See [two](b/c.md#two).\n'), file('docs/b/c.md', '# One\n')],
  ],
  fine: [
    file(
      'docs/a.md',
      '## One `code`, and more\n\n[1](#one-code-and-more), [2](b.md#the-proof), [3](https://a.b/c#d)\n',
    ),
    file('docs/b.md', '# B\n\n## The proof\n'),
  ],
};

export const docsRules: Rule[] = [shortParagraphs, plainSentences, plainWords, headingsExist];

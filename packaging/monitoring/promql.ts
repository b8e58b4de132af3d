/** Finds unknown metrics, labels and label values in PromQL. promtool checks the syntax. */
import { knownMetrics, type Metric, targetLabels } from './metrics.ts';

const token = /"(?:[^"\\]|\\.)*"|[a-zA-Z_:][\w:]*|\$\w+|\d[\w.]*|[=!]~|[=!<>]=|\S/g;
const isWord = (text: string | undefined) => text !== undefined && /^[a-zA-Z_:]/.test(text);

/** The metric that a series of a histogram belongs to. */
export const histogramOf = (name: string): string => name.replace(/_(?:bucket|sum|count)$/, '');

/** Each is followed by a list of labels in parentheses. */
const grouping = new Set(['by', 'without', 'on', 'ignoring', 'group_left', 'group_right']);
const keywords = new Set(['and', 'or', 'unless', 'offset', 'bool', 'Inf', 'NaN']);

/** Dashboard variables stand for any value, and a regular expression may start with `.`. */
const isOpenValue = (value: string) => value === '' || /^[$.]/.test(value);

function wrongMatcher(name: string, labels: Metric['labels'], label: string, value: string): string[] {
  const values = labels[label];
  if (values === undefined) return [`${name} has no label ${label}`];
  if (values === null) return [];
  return value
    .split('|')
    .filter((each) => !isOpenValue(each) && !values.includes(each))
    .map((each) => `${label} of ${name} is never ${each}`);
}

/** Returns a sentence for each name in the expression that the metric table does not have. */
export function unknownNames(expression: string): string[] {
  const tokens = expression.match(token) ?? [];
  const wrong: string[] = [];
  const usedLabels: Metric['labels'] = { ...targetLabels };
  const grouped: string[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const word = tokens[at] ?? '';
    const next = tokens[at + 1];
    if (!isWord(word) || keywords.has(word)) continue;
    if (grouping.has(word)) {
      for (at++; tokens[at + 1] !== undefined && tokens[at + 1] !== ')'; at++)
        if (isWord(tokens[at + 1])) grouped.push(tokens[at + 1] ?? '');
      continue;
    }
    if (next === '(' || next === 'by' || next === 'without') continue;
    const histogram = knownMetrics[histogramOf(word)];
    const metric = knownMetrics[word] ?? (histogram?.type === 'histogram' ? histogram : undefined);
    if (!metric) wrong.push(`there is no metric ${word}`);
    const labels = { ...targetLabels, ...metric?.labels, ...(metric?.type === 'histogram' && { le: null }) };
    Object.assign(usedLabels, labels);
    if (next !== '{') continue;
    for (at += 2; at < tokens.length && tokens[at] !== '}'; at += tokens[at + 3] === ',' ? 4 : 3)
      if (metric) wrong.push(...wrongMatcher(word, labels, tokens[at] ?? '', (tokens[at + 2] ?? '').slice(1, -1)));
  }
  wrong.push(
    ...grouped.filter((label) => !(label in usedLabels)).map((label) => `no metric here has the label ${label}`),
  );
  return wrong;
}

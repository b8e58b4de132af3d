import { describe, expect, it } from 'vitest';
import type { Node } from '../../../../src/contract/node.ts';
import { type Change, Journal } from './journal.ts';

const change = (node_id: string): Change => ({ topic: 'node', value: { node_id } as Node });
const ids = (journal: Journal, mark: number) => journal.since(mark, 'node').map(({ node_id }) => node_id);

describe('the journal', () => {
  it('returns the changes of one topic that came after the mark', () => {
    const journal = new Journal();
    journal.add([change('a')]);
    const mark = journal.mark();
    journal.add([change('b'), change('c')]);
    expect(ids(journal, mark)).toEqual(['b', 'c']);
    expect(journal.since(mark, 'evidence')).toEqual([]);
  });

  it('drops the oldest changes and keeps marks valid', () => {
    const journal = new Journal();
    const addMany = (name: string, length: number) =>
      journal.add(Array.from({ length }, (_, index) => change(`${name}${index}`)));
    addMany('old', 9_995);
    const mark = journal.mark();
    addMany('new', 20);
    expect(ids(journal, 0)).not.toContain('old0');
    expect(ids(journal, mark)).toHaveLength(20);
    expect(ids(journal, mark)[0]).toBe('new0');
  });
});

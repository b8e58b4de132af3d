import { expect, test } from 'vitest';
import { tellRefused } from './tell-refused.ts';

test('what is refused because of the relay is in its log, once for each reason', () => {
  const said: string[] = [];
  const tell = tellRefused({ error: (fields: { why: string }) => said.push(fields.why) } as never);
  const refused = (code: string, detail: string) => tell({ code, status: 403, detail });
  for (let batch = 0; batch < 3; batch++) {
    refused('scope_insufficient', 'for metal alone, and this is of gpu');
    refused('scope_insufficient', 'for metal alone, and this is of edge');
    refused('credential_unknown', 'not known');
  }
  expect(said).toEqual(['for metal alone, and this is of gpu', 'for metal alone, and this is of edge']);
});

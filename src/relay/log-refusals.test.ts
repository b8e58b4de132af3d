import { expect, test } from 'vitest';
import { logRefusals } from './log-refusals.ts';

test("logs refusals caused by the relay's token, once per reason", () => {
  const logged: string[] = [];
  const logRefusal = logRefusals({ error: (fields: { why: string }) => logged.push(fields.why) } as never);
  const refused = (code: string, detail: string) => logRefusal({ code, status: 403, detail });
  for (let batch = 0; batch < 3; batch++) {
    refused('scope_insufficient', 'for metal alone, and this is of gpu');
    refused('scope_insufficient', 'for metal alone, and this is of edge');
    refused('credential_unknown', 'not known');
  }
  expect(logged).toEqual(['for metal alone, and this is of gpu', 'for metal alone, and this is of edge']);
});

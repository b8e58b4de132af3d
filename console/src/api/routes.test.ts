import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { fromRoot, generatedFiles } from '../../../scripts/generate-client.ts';

describe('the generated tables', () => {
  it.each(Object.entries(generatedFiles))('%s is what scripts/generate-client.ts writes', (path, render) => {
    expect(readFileSync(fromRoot(path), 'utf8'), 'run: bin/run scripts/generate-client.ts').toBe(render());
  });
});

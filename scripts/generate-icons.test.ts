/** Checks that the generated icons are those that the console imports, and how they are drawn. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { iconsPath, importedIcons, renderIcons } from './generate-icons.ts';

test('console/src/ui/icons.generated.ts is up to date (else: bin/run scripts/generate-icons.ts)', () => {
  expect(readFileSync(iconsPath, 'utf8')).toBe(renderIcons());
});

test('finds the imports of icons, also over several lines and of types', () => {
  const text =
    "import { IconCheck } from '../ui/icons.generated.ts';\n" +
    "import {\n  IconBook2,\n  IconX,\n} from './icons.generated.ts';\n" +
    "import type { IconSun } from '../../ui/icons.generated.ts';\n" +
    "import { Text } from '@mantine/core';\n";
  expect(importedIcons(text)).toEqual(['IconCheck', 'IconBook2', 'IconX', 'IconSun']);
});

test('separates the filled part of a drawing from its lines', () => {
  expect(renderIcons(['IconCheck'])).toMatch(/IconCheck = [^(]*icon\('M5 12l5 5l10 -10'\)/);
  expect(renderIcons(['IconFocus2'])).toMatch(/IconFocus2 = [^(]*icon\('M[^']+', 'M[^']+'\)/);
});

test('refuses an icon that does not exist', () => {
  expect(() => renderIcons(['IconSlipway'])).toThrow('no outline for IconSlipway');
});

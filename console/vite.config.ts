/** Builds the console into dist/console, where the server picks it up; `vite` alone serves it against a running server. */
import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const server = process.env.SLIPWAY_URL ?? 'http://127.0.0.1:7070';

/** Fields that no page has by itself. */
const onlyInDialogs =
  /react-number-format|components\/(NumberInput|Radio|Textarea|Modal|ModalBase)\/|console\/src\/[\w/-]+\/(\w+Dialog|\w+Form|ExtraField|ForesightBox|EnrolmentToken|KeyboardHelp)\.tsx/;

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  plugins: [react()],
  build: {
    outDir: fileURLToPath(new URL('../dist/console', import.meta.url)),
    emptyOutDir: true,
    target: 'es2022',
    // Inlined fonts and pictures would count as script and could not be cached by themselves.
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // Pages share much in small pieces; asked for one by one, dozens of them would queue for a handful of connections.
        // Each group takes along what its files need and no group before it has: what the first page does not need is not in it.
        codeSplitting: {
          groups: [
            { name: 'framework', priority: 5, test: /node_modules\/(react|react-dom|scheduler|@tanstack)\// },
            { name: 'floating', priority: 4, test: /node_modules\/@floating-ui\// },
            {
              name: 'first',
              priority: 3,
              test: /console\/src\/(app\/main|app\/Frame|features\/attention\/AttentionPage)\.tsx$/,
            },
            { name: 'tables', priority: 2, test: /console\/src\/ui\/table\/(SearchField|DataTable|PillFilter)\.tsx$/ },
            { name: 'shared', priority: 1, minShareCount: 3, test: (id: string) => !onlyInDialogs.test(id) },
            { name: 'dialogs', minShareCount: 2, test: onlyInDialogs },
          ],
        },
      },
    },
  },
  server: { proxy: { '/v1': server } },
});

/**
 * Builds the console into dist/console, which the server serves. `vite` without `build` serves the
 * sources for development and forwards calls to a running server.
 */
import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const server = process.env.SLIPWAY_URL ?? 'http://127.0.0.1:7070';

/** Modules that only dialogs use. */
const onlyInDialogs =
  /react-number-format|components\/(Checkbox|NumberInput|Radio|Textarea|Modal|ModalBase)\/|console\/src\/[\w/-]+\/(\w+Dialog|\w+Form|ExtraField|PredictionBox|EnrolmentToken|KeyboardHelp)\.tsx/;

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  plugins: [react()],
  build: {
    outDir: fileURLToPath(new URL('../dist/console', import.meta.url)),
    emptyOutDir: true,
    target: 'es2022',
    // Inlined fonts and images would make the scripts larger and could not be cached separately.
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // Small shared modules would mean dozens of requests over few connections. Each group
        // includes the dependencies that no earlier group has, so the first page loads nothing it
        // does not need.
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
  server: { proxy: { '/v1': server, '/healthz': server } },
});

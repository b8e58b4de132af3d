/** Builds the console into dist/console, where the server picks it up; `vite` alone serves it against a running server. */
import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const server = process.env.SLIPWAY_URL ?? 'http://127.0.0.1:7070';

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
        codeSplitting: {
          groups: [
            { name: 'framework', test: /node_modules\/(react|react-dom|scheduler|@tanstack)\// },
            { name: 'shared', minShareCount: 3 },
          ],
        },
      },
    },
  },
  server: { proxy: { '/v1': server } },
});

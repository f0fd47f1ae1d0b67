import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The server answers at /ui/. Go embeds the built files, so their names and content depend on the sources alone.
export default defineConfig({
  base: '/ui/',
  plugins: [react()],
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    // The content security policy allows no data: URLs for fonts and scripts.
    assetsInlineLimit: 0,
    license: { fileName: 'NOTICE.txt' },
    chunkSizeWarningLimit: 700,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  server: { port: 5173, proxy: { '/ui/api': 'http://127.0.0.1:5174' } },
});

/** How the browser tests run: Debian's Chromium, one page at a time, nothing fetched from outside. */
import { defineConfig } from '@playwright/test';

const { CI, WORKBENCH_CHROMIUM, WORKBENCH_UI_OUTPUT, WORKBENCH_UI_URL } =
  process.env;

export default defineConfig({
  testDir: 'tests',
  outputDir: WORKBENCH_UI_OUTPUT ?? 'test-results',
  forbidOnly: !!CI,
  fullyParallel: false,
  workers: 1,
  retries: 0,
  maxFailures: 8,
  timeout: 300_000,
  expect: { timeout: 30_000 },
  reporter: './reporter.ts',
  snapshotPathTemplate: '{testDir}/{testFilePath}-snapshots/{arg}{ext}',
  use: {
    baseURL: WORKBENCH_UI_URL,
    browserName: 'chromium',
    headless: true,
    screenshot: 'only-on-failure',
    trace: 'off',
    video: 'off',
    viewport: { width: 1280, height: 800 },
    locale: 'en-US',
    timezoneId: 'UTC',
    launchOptions: {
      executablePath: WORKBENCH_CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync'
      ]
    }
  }
});

import { expect, test } from '@playwright/test';

test('the browser opens a page', async ({ page }) => {
  await page.goto('about:blank');

  expect(page.url()).toBe('about:blank');
});

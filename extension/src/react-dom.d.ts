/** What of React's client is used; JupyterLab brings no types for it. */
declare module 'react-dom/client' {
  export function createRoot(container: Element): {
    render(node: React.ReactNode): void;
    unmount(): void;
  };
}

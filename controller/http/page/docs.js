// FastAPI's own page has this within it, which the policy of the page would not let run.
window.SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true,
  showExtensions: true, showCommonExtensions: true });
